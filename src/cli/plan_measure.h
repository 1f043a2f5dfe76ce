/* cli/plan_measure.h -- the part of a study that runs steps; plan_study.h says how. */
#ifndef ZI_CLI_PLAN_MEASURE_H
#define ZI_CLI_PLAN_MEASURE_H

#include "cli/plan_study.h"

/* keep is executed: s->cost takes what its nodes took, s->keep_ns its time; it stays ready to run
 * beside plans if the machine has the memory. */
ZICO_NODISCARD zico_status zi_study_open_yard(zi_study *s, zi_train_diag *diag);
void                       zi_study_close_yard(zi_study *s);

#endif /* ZI_CLI_PLAN_MEASURE_H */
