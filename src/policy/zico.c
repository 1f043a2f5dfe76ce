/* zico.c -- start each step at the moment when the tides add up to no more than the budget.
 *
 * PAPER    G. Lim, J. Ahn, W. Xiao, Y. Kwon, M. Jeon. Zico: Efficient GPU Memory Sharing for
 *          Concurrent DNN Training. USENIX ATC 2021.
 */
#include "policy/policy_common.h"
#include "policy/sweep.h"

typedef struct zico {
    zi_policy_shares shares;
} zico;

static zico_status
zico_init(void *state, const char *arg, uint64_t seed)
{
    (void)state, (void)seed;
    return arg[0] ? ZICO_E_ARG : ZICO_OK;
}

static void
zico_on_event(void *state, const zi_view *v, const zi_event *ev, zi_out *out)
{
    zico *z = state;

    if (ev->kind == ZI_EVENT_JOIN) zi_policy_shares_join(&z->shares, v, ev->job);
    if (ev->kind == ZI_EVENT_STEP_END) {
        const zi_job_view *j = &v->job[ev->job];
        zi_policy_shares_use(&z->shares, j, j->solo_step_ns);
    }
    if (ev->kind == ZI_EVENT_REGION && ev->delta_bytes > 0) return;
    size_t next = zi_policy_shares_next(&z->shares, v);
    if (next == SIZE_MAX || !zi_policy_core_free(v, next)) return;
    uint64_t delay = zi_sweep_delay(v, next, SIZE_MAX, ev->now_ns);
    if (delay == 0) {
        zi_policy_divide_cores(v, next, 0, out);
        zi_out_add(out, ZI_ANSWER_GO, next, 0, 0);
    } else {
        zi_out_add(out, ZI_ANSWER_REASON, next, ZI_JOB_NONE, ZI_REASON_TIDE);
        if (delay != UINT64_MAX)
            zi_out_add(out, ZI_ANSWER_WAKE_AT, 0, 0,
                       ev->now_ns + (delay > 1000000u ? delay : 1000000u));
    }
}

const zi_policy_ops zi_policy_zico = {
    .name = "zico",
    .origin = "Zico, USENIX ATC 2021",
    .state_size = sizeof(zico),
    .init = zico_init,
    .on_event = zico_on_event,
};
