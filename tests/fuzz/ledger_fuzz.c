/* ledger_fuzz.c -- any string of operations leaves a book that balances.
 *
 * Two bytes are an operation: what (low nibble) by whom (high nibble), and an amount.  After
 * each one zi_ledger_verify must hold, and a grant must do what may_grant said.
 */
#include <stdio.h>
#include <stdlib.h>
#include "ledger/ledger.h"

#define REGION  (2u << 20)
#define REGIONS 96u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
must(int good, const char *what, int detail)
{
    if (good) return;
    fprintf(stderr, "ledger_fuzz: %s (%d)\n", what, detail);
    abort();
}

static void
ask(zi_ledger *l, zi_job_id job, zi_hold hold, uint8_t amount, uint8_t flags)
{
    uint64_t   id;
    zi_request req = {.job = job,
                      .hold = hold,
                      .n_regions = amount,
                      .size_bytes = (uint64_t)amount * REGION / 2,
                      .adjacent = flags & 1,
                      .ahead = (flags & 2) != 0};
    (void)zi_ledger_ask(l, &req, &id);
}

static void
grant(zi_ledger *l, uint8_t place)
{
    static zi_grant   g;
    const zi_request *req = zi_ledger_request(l, place % 8);
    if (!req) return;
    zico_status may = zi_ledger_may_grant(l, req);
    must(may == zi_ledger_grant(l, req->id, 0, &g), "grant differs from may_grant", may);
}

static void
operate(zi_ledger *l, uint8_t op, uint8_t amount)
{
    static zi_grant g;
    zi_job_id       job = op >> 4;
    zi_job_limits   limits = {(uint64_t)(amount >> 4) * REGION,
                              (uint64_t)(amount & 15) * 4 * REGION};
    zi_run          runs[2] = {{amount % REGIONS, 1 + (op >> 4)}, {amount / 2, 1}};

    switch (op & 15) {
    case 0:
        (void)zi_ledger_join(l, &limits, &job);
        break;
    case 1:
        (void)zi_ledger_leave(l, job);
        break;
    case 2:
        ask(l, job, ZI_HOLD_FIXED, amount, 0);
        break;
    case 3:
        ask(l, job, ZI_HOLD_STEP, amount, 0);
        break;
    case 4:
        ask(l, job, ZI_HOLD_STEP, amount, 1);
        break;
    case 5:
        ask(l, job, ZI_HOLD_PRIVATE, amount, 2);
        break;
    case 6:
    case 7:
    case 8:
        grant(l, amount);
        break;
    case 9:
        (void)zi_ledger_return(l, job, runs, 1);
        break;
    case 10:
        (void)zi_ledger_return(l, zi_ledger_owner(l, runs[0].first), runs,
                               1 + (amount & 1));
        break;
    case 11:
        (void)zi_ledger_uncharge(l, job, (uint64_t)amount * REGION / 4);
        break;
    case 12:
        (void)zi_ledger_set_budget(l, (uint64_t)amount * REGION, job * REGION, &g);
        break;
    case 13:
        (void)zi_ledger_set_limits(l, job, &limits);
        break;
    case 14:
        (void)zi_ledger_adopt_region(l, job, amount, ZI_HOLD_STEP);
        break;
    default:
        (void)zi_ledger_adopt_idle(l, amount % REGIONS);
        break;
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zi_ledger      *l;
    zi_ledger_shape shape = {REGION, REGIONS, 64u * REGION};

    if (zi_ledger_new(&shape, &l) < 0) return 0;
    for (size_t i = 0; i + 1 < size && i < 4096; i += 2) {
        int broken = 0;
        operate(l, data[i], data[i + 1]);
        must(zi_ledger_verify(l, &broken) == ZICO_OK, "invariant", broken);
    }
    zi_ledger_free(l);
    return 0;
}
