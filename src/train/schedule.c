/* schedule.c -- constant, cosine and step decay, each with a warm-up. */
#include "train/schedule.h"

#include <math.h>
#include <string.h>

#include "base/check.h"

zico_status
zi_schedule_find(const char *name, zi_schedule_kind *ret_kind)
{
    static const char *const names[] = {"constant", "cosine", "step"};

    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *ret_kind = (zi_schedule_kind)i;
            return ZICO_OK;
        }
    return ZICO_E_NOTFOUND;
}

double
zi_schedule_lr(const zi_schedule *s, uint64_t step)
{
    zi_assert(step >= 1);
    if (step <= s->warmup) return s->lr * (double)step / (double)s->warmup;
    uint64_t done = step - s->warmup - 1; /* steps since the top */

    switch (s->kind) {
    case ZI_SCHEDULE_COSINE: {
        uint64_t span = s->total > s->warmup + 1 ? s->total - s->warmup - 1 : 0;
        double   t = span == 0 || done >= span ? 1 : (double)done / (double)span;
        double   half = 0.5 * (1 + cos(3.14159265358979323846 * t));
        return s->lr * (s->floor + (1 - s->floor) * half);
    }
    case ZI_SCHEDULE_STEP:
        return s->every ? s->lr * pow(s->gamma, (double)(done / s->every)) : s->lr;
    case ZI_SCHEDULE_CONSTANT:
        break;
    }
    return s->lr;
}
