/* planner/vdnn.h -- the rungs of vDNN's ladder, one by one. */
#ifndef ZI_PLANNER_VDNN_H
#define ZI_PLANNER_VDNN_H

#include "planner/draft.h"
#include "planner/planner.h"

typedef enum zi_vdnn_policy { ZI_VDNN_NONE, ZI_VDNN_CONV, ZI_VDNN_ALL } zi_vdnn_policy;

/* Fates of the policy: which inputs of layers go out, and before which backward node each
 * comes in again.  ZICO_E_NOMEM. */
ZICO_NODISCARD zico_status zi_vdnn_apply(zi_draft *d, zi_vdnn_policy policy);

#endif /* ZI_PLANNER_VDNN_H */
