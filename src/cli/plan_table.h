/* cli/plan_table.h -- what a study found, as table, plot and JSON. */
#ifndef ZI_CLI_PLAN_TABLE_H
#define ZI_CLI_PLAN_TABLE_H

#include "base/vec.h"
#include "cli/plan_study.h"

#define ZI_PLAN_BUDGETS_MAX 32

typedef struct zi_plan_answer {
    ZI_VEC(zi_study_row) rows; /* by budget, then by planner */
    uint64_t budget[ZI_PLAN_BUDGETS_MAX];
    size_t   n_budgets;
} zi_plan_answer;

/* An array of objects; peak_bytes of what does not fit is what it would need. */
ZICO_NODISCARD zico_status zi_plan_answer_json(const zi_study *s, const zi_plan_answer *a,
                                               zi_str *out);
/* A table of what fits, what the others need, and with several budgets a plot.  A narrow
 * screen gets fewer columns. */
ZICO_NODISCARD zico_status zi_plan_answer_text(const zi_study *s, const zi_plan_answer *a,
                                               const zi_style *style, zi_str *out);
ZICO_NODISCARD zico_status zi_plan_answer_svg(const zi_study *s, const zi_plan_answer *a,
                                              zi_str *out);

#endif /* ZI_CLI_PLAN_TABLE_H */
