/* planner_table.c -- every planner, once. */
#include "planner/planners.h"

#include <string.h>

static const zi_planner_ops *const table[] = {
    &zi_planner_auto,   &zi_planner_keep,     &zi_planner_keep_all,
    &zi_planner_cheap,  &zi_planner_vdnn,     &zi_planner_superneurons,
    &zi_planner_monger, &zi_planner_capuchin,
};

const zi_planner_ops *
zi_planner_at(size_t i)
{
    return i < sizeof table / sizeof table[0] ? table[i] : NULL;
}

const zi_planner_ops *
zi_planner_find(const char *name)
{
    for (size_t i = 0; zi_planner_at(i); i++)
        if (!strcmp(zi_planner_at(i)->name, name)) return zi_planner_at(i);
    return NULL;
}
