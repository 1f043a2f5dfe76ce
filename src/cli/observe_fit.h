/* cli/observe_fit.h -- how many copies of an observed program fit a budget, by simulation. */
#ifndef ZI_CLI_OBSERVE_FIT_H
#define ZI_CLI_OBSERVE_FIT_H

#include "hook/observe.h"

#define ZI_FIT_MAX 32u /* copies that are tried */

typedef struct zi_fit {
    unsigned n_plain;  /* peaks beside each other, as many as go               */
    unsigned n_shared; /* under the policy zico, none refused and none stuck   */
    double   speed;    /* of all of them together; 1 is one alone              */
} zi_fit;

/* `n_cores` as the simulator counts them.  E_STATE: no step was observed. */
zico_status zi_observe_fit(const zi_observed *o, uint64_t budget_bytes, uint32_t n_cores,
                           zi_fit *ret_fit);

#endif /* ZI_CLI_OBSERVE_FIT_H */
