/* tide.c -- questions about one tide: does it hold together, its mean, its height. */
#include "tide/tide.h"

static zico_status
verify_points(const zi_tide *t, uint64_t *ret_peak, uint64_t *ret_end)
{
    int64_t  use = 0;
    uint64_t peak = 0;

    for (uint32_t i = 0; i < t->n_points; i++) {
        const zi_tide_point *p = &t->point[i];
        if (i > 0) {
            const zi_tide_point *before = p - 1;
            if (p->at_ns < before->at_ns) return ZICO_E_CORRUPT; /* T1 */
            if (p->at_ns == before->at_ns && p->delta_bytes > 0 &&
                before->delta_bytes < 0)
                return ZICO_E_CORRUPT; /* T1 */
        }
        if (p->delta_bytes == 0) return ZICO_E_CORRUPT;     /* T2 */
        if (p->at_ns > t->length_ns) return ZICO_E_CORRUPT; /* T4 */
        if (__builtin_add_overflow(use, p->delta_bytes, &use) || use < 0)
            return ZICO_E_CORRUPT; /* T2 */
        if ((uint64_t)use > peak) peak = (uint64_t)use;
    }
    *ret_peak = peak;
    *ret_end = (uint64_t)use;
    return ZICO_OK;
}

zico_status
zi_tide_verify(const zi_tide *t)
{
    uint64_t    peak = 0, end = 0;
    zico_status st;

    if (t->n_points > ZI_TIDE_POINTS_MAX) return ZICO_E_CORRUPT;
    st = verify_points(t, &peak, &end);
    if (st < 0) return st;
    if (end != t->end_bytes) return ZICO_E_CORRUPT;   /* T3 */
    if (peak != t->peak_bytes) return ZICO_E_CORRUPT; /* T4 */
    return ZICO_OK;
}

uint64_t
zi_tide_mean(const zi_tide *t)
{
    double  area = 0;
    int64_t use = 0;

    if (t->length_ns == 0) return t->peak_bytes;
    for (uint32_t i = 0; i < t->n_points; i++) {
        uint64_t until = i + 1 < t->n_points ? t->point[i + 1].at_ns : t->length_ns;
        use += t->point[i].delta_bytes;
        area += (double)use * (double)(until - t->point[i].at_ns);
    }
    return (uint64_t)(area / (double)t->length_ns);
}

uint64_t
zi_tide_at(const zi_tide *t, uint64_t at_ns)
{
    int64_t use = 0;

    for (uint32_t i = 0; i < t->n_points && t->point[i].at_ns <= at_ns; i++)
        use += t->point[i].delta_bytes;
    return (uint64_t)use;
}
