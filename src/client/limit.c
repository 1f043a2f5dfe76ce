/* limit.c -- how much this job may hold, as people have it now; and what it will take.
 *
 * Limits change while jobs run (zico limit).  The broker tells nobody: it writes them into the
 * lease table, which every job can read.  A job that plans by its limit may read it a moment
 * before it changes; what it then asks for might wait for ever.  So the limit told last is kept,
 * and a step that waits looks whether it still holds.
 *
 * Wishes are softer: the broker asks a job to take less as others could run beside it (SHRINK).  The job
 * answers what it takes from now on, be it less or not.  A broker that has been restarted knows of no
 * wish, so with it there is none.
 */
#include "client/session_inside.h"

#include "wire/table.h"

static bool
read_table(zi_session *s, uint64_t at, void *ret, uint64_t n_bytes)
{
    return s->os->pread(s->os, s->table_fd, ret, n_bytes, at) == (long)n_bytes;
}

/* With mu held. */
static uint64_t
limit_now(zi_session *s)
{
    zi_table_head head;
    zi_table_row  row;
    uint64_t      limit = s->budget_bytes;

    if (s->table_fd >= 0 && read_table(s, 0, &head, sizeof head) &&
        head.magic == ZI_TABLE_MAGIC && head.version == ZI_TABLE_VERSION &&
        s->job < head.jobs_max &&
        read_table(s, sizeof head + s->job * sizeof row, &row, sizeof row)) {
        const uint64_t budget = atomic_load(&head.budget_bytes);
        const uint64_t max = atomic_load(&row.max_bytes);
        limit = max && max < budget ? max : budget;
        s->budget_bytes = budget;
    }
    return limit;
}

uint64_t
zi_session_limit(zi_session *s)
{
    pthread_mutex_lock(&s->mu);
    uint64_t limit = s->told_limit = limit_now(s);
    pthread_mutex_unlock(&s->mu);
    return limit;
}

bool
zi_limit_has_changed(zi_session *s)
{
    if (!s->told_limit || s->state != ZI_LINK_JOINED) return false;
    return s->wish_new || limit_now(s) != s->told_limit;
}

static zi_wire_point
point_of(const zi_step_need *need)
{
    return (zi_wire_point){.at_ns = need->ns, .delta = (int64_t)need->bytes};
}

void
zi_session_planned(zi_session *s, const zi_step_need *now, const zi_step_need *full)
{
    if (!zi_session_usable(s)) return;
    pthread_mutex_lock(&s->mu);
    if (s->state == ZI_LINK_JOINED) {
        zi_msg_frontier *m = &zi_link_message(s, ZI_MSG_FRONTIER)->frontier;
        m->n_points = 0;
        if (full) m->points[m->n_points++] = point_of(full);
        m->points[m->n_points++] = point_of(now);
        zi_link_send(s, NULL, 0);
    }
    pthread_mutex_unlock(&s->mu);
}

bool
zi_session_shrink(zi_session *s, zi_session_wish *ret_wish)
{
    pthread_mutex_lock(&s->mu);
    bool is_new = s->wish_new;
    s->wish_new = false;
    *ret_wish = s->wish;
    pthread_mutex_unlock(&s->mu);
    return is_new;
}

void
zi_limit_wish(zi_session *s, zi_session_wish wish)
{
    s->wish = wish;
    s->wish_new = (s->opt.features & ZI_FEATURE_SHRINK) != 0;
}
