/* member.c -- jobs: how they join, go missing, come back and die.
 *
 *     HELLO            connection ends           REJOIN
 *    ------> present -----------------> absent ---------> present
 *                |                        |
 *                +---- pidfd ready -------+----> gone: everything returns at once (B2)
 *                +---- LEAVE
 *
 * After a restart the rows of the lease table are *listed*: absent, not yet in the desk's
 * books, and (if they were connected) *awaited*: until all awaited ones have reported, are
 * dead or are given up (B4), the desk holds back every grant and newcomers wait.  The desk
 * learns of a listed job when it reports (adopt), or when it is no longer awaited.
 */
#include "broker/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include "base/alloc.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/size.h"
#include "base/try.h"

static zi_table_row *
row_of(zi_broker *b, zi_job_id job)
{
    return &b->estate->leases->row[job];
}

zi_peer *
zi_member_peer(zi_broker *b, zi_job_id job)
{
    const zi_member *m = &b->member[job];
    return m->live && m->peer != ZI_PEER_NONE ? b->peer[m->peer] : NULL;
}

zi_job_id
zi_member_find(zi_broker *b, const char *name)
{
    for (zi_job_id j = 0; j < ZI_LEDGER_JOBS_MAX; j++)
        if (b->member[j].live && strcmp(row_of(b, j)->name, name) == 0) return j;
    return ZI_JOB_NONE;
}

/* -- who is that process? ------------------------------------------------------------------ */

#define STAT_PARENT 4u /* fields of /proc/PID/stat, as proc(5) counts them */
#define STAT_STARTED                                                                     \
    22u /* in the kernel's ticks: with the pid it names a process for good */

static zico_status
read_stat(zi_broker *b, int32_t pid, unsigned which, uint64_t *ret_value)
{
    char path[32], text[512];

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    long fd = b->os->open_file(b->os, path, O_RDONLY, 0);
    if (fd < 0) return zi_os_status(fd);
    long n = b->os->pread(b->os, (int)fd, text, sizeof text - 1, 0);
    b->os->close(b->os, (int)fd);
    if (n <= 0) return ZICO_E_NOTFOUND;
    text[n] = '\0';
    const char *p = strrchr(text, ')'); /* the name may hold anything before it */
    for (unsigned field = 2; p && field < which; field++) p = strchr(p + 1, ' ');
    if (!p) return ZICO_E_FORMAT;
    *ret_value = strtoull(p + 1, NULL, 10);
    return ZICO_OK;
}

#define ANCESTORS_MAX 16u

static zi_job_id
member_of(const zi_broker *b, uint64_t pid)
{
    for (zi_job_id j = 0; j < ZI_LEDGER_JOBS_MAX; j++)
        if (b->member[j].live && b->member[j].adopted &&
            (uint64_t)b->member[j].pid == pid)
            return j;
    return ZI_JOB_NONE;
}

/* Which job has started this one's program, itself or by others in between? */
static void
find_maker(zi_broker *b, zi_job_id job)
{
    uint64_t pid = (uint64_t)b->member[job].pid;

    for (unsigned i = 0; i < ANCESTORS_MAX; i++) {
        if (read_stat(b, (int32_t)pid, STAT_PARENT, &pid) < 0 || pid <= 1) return;
        zi_job_id maker = member_of(b, pid);
        if (maker == ZI_JOB_NONE || maker == job) continue;
        zi_desk_set_maker(b->desk, job, maker);
        return;
    }
}

/* Watch a process die.  E_NOTFOUND: it is dead already. */
static zico_status
watch_process(zi_broker *b, zi_job_id job, int32_t pid)
{
    zi_member *m = &b->member[job];
    long       fd = b->os->pidfd(b->os, pid);

    if (fd < 0) return fd == -ESRCH ? ZICO_E_NOTFOUND : zi_os_status(fd);
    m->generation = (m->generation + 1) & 0xffffffu;
    long rc = zi_loop_watch(b, (int)fd, EPOLLIN,
                            zi_loop_tag(ZI_TAG_MEMBER, job, m->generation));
    if (rc < 0) {
        b->os->close(b->os, (int)fd);
        return zi_os_status(rc);
    }
    m->pidfd = (int)fd;
    return ZICO_OK;
}

static zico_status
make_token(zi_broker *b, uint64_t *ret_token)
{
    long n = b->os->pread(b->os, b->random_fd, ret_token, sizeof *ret_token, 0);

    if (n < 0) return zi_os_status(n);
    return n == sizeof *ret_token ? ZICO_OK : ZICO_E_OS;
}

/* -- joining ---------------------------------------------------------------------------------- */

/* "train", "train-2", ...: cut to fit, at a border between characters. */
static void
unique_name(zi_broker *b, const char *wanted, char *name, size_t cap)
{
    char   suffix[16] = "";
    size_t len;

    if (!*wanted) wanted = "job";
    for (unsigned k = 2;; k++) {
        len = strlen(wanted);
        if (len > cap - 1 - strlen(suffix)) len = cap - 1 - strlen(suffix);
        while (len > 0 && ((unsigned char)wanted[len] & 0xc0) == 0x80) len--;
        memcpy(name, wanted, len);
        strcpy(name + len, suffix);
        if (zi_member_find(b, name) == ZI_JOB_NONE) return;
        snprintf(suffix, sizeof suffix, "-%u", k);
    }
}

static zi_job_spec
spec_of_row(const zi_table_row *r)
{
    return (zi_job_spec){
        .limits = {.min_bytes = r->min_bytes, .max_bytes = r->max_bytes},
        .claim_bytes = r->claim_bytes,
        .weight_milli = r->weight_milli,
        .steps_total = r->steps_total,
        .latency_ns = r->latency_ns,
        .features = r->features,
        .core_mode = (zi_core_mode)r->core_mode,
        .cores = r->cores,
        .shape = r->shape,
    };
}

static void
row_of_hello(zi_broker *b, const zi_msg_hello *h, zi_table_row *r)
{
    *r = (zi_table_row){
        .min_bytes = h->min_bytes,
        .max_bytes = h->max_bytes,
        .claim_bytes = h->claim_bytes,
        .weight_milli = h->weight_milli,
        .core_mode = h->core_mode,
        .cores = h->cores,
        .features = h->features,
        .steps_total = h->steps_total,
        .latency_ns = h->latency_ns,
        .shape = *h->shape_key ? zi_hash_bytes(h->shape_key, strlen(h->shape_key)) : 0,
        .revision = 1,
        .connected = 1,
    };
    unique_name(b, h->name, r->name, sizeof r->name);
}

static void
welcome(zi_broker *b, zi_peer *p, zi_job_id job)
{
    const zi_table_row  *r = row_of(b, job);
    const zi_table_head *h = b->estate->leases->head;
    const zi_job_view   *v = zi_desk_job(b->desk, job);
    zi_msg              *m = zi_peer_compose(b, ZI_MSG_WELCOME, 0);

    m->welcome.version = p->version;
    m->welcome.features = r->features & ZI_FEATURES_ALL;
    if (b->opt.guard) m->welcome.features |= ZI_FEATURE_GUARD;
    m->welcome.job = job;
    m->welcome.token = r->token;
    m->welcome.epoch = h->epoch;
    m->welcome.budget_bytes = h->budget_bytes;
    m->welcome.region_bytes = h->region_bytes;
    m->welcome.n_regions = h->n_regions;
    m->welcome.cores = v ? v->cores : 0;
    strcpy(m->welcome.name, r->name);
    strcpy(m->welcome.policy, b->policy);
    strcpy(m->welcome.device, h->device);
    zi_peer_send(b, p, true);
    zi_leases_set_state(b->estate->leases, job, ZI_TABLE_LIVE);
}

static void
attach(zi_broker *b, zi_peer *p, zi_job_id job)
{
    p->state = ZI_PEER_JOB;
    p->job = job;
    b->member[job].peer = p->index;
    atomic_store(&row_of(b, job)->connected, 1u);
    find_maker(b, job);
}

static void
begin_member(zi_broker *b, zi_job_id job, int32_t pid)
{
    zi_member *m = &b->member[job];

    m->live = true;
    m->peer = ZI_PEER_NONE;
    m->pid = pid;
    m->loss_micro = INT64_MIN;
    b->n_members++;
}

/* Also of one that was never finished: everything but the desk's and the table's side. */
static void
end_member(zi_broker *b, zi_job_id job)
{
    zi_member *m = &b->member[job];
    uint32_t   generation = m->generation;

    if (m->pidfd >= 0) b->os->close(b->os, m->pidfd);
    zi_tide_recorder_free(m->recorder);
    zi_free(m->tide);
    if (m->live) b->n_members--;
    if (m->live && m->awaited) b->n_awaited--;
    *m = (zi_member){.pidfd = -1, .peer = ZI_PEER_NONE, .generation = generation};
    b->empty_since_ns = b->os->now_ns(b->os);
}

zico_status
zi_member_join(zi_broker *b, zi_peer *p, const zi_msg_hello *hello)
{
    zi_table_row row;
    zi_job_id    job;
    uint64_t     now = b->os->now_ns(b->os);

    ZI_TRY(zi_wire_agree(hello->min_version, hello->max_version, &p->version));
    row_of_hello(b, hello, &row);
    row.pid = (uint32_t)p->pid;
    ZI_TRY(read_stat(b, p->pid, STAT_STARTED, &row.started));
    ZI_TRY(make_token(b, &row.token));
    zi_job_spec spec = spec_of_row(&row);
    spec.known_tide = zi_tide_store_get(b->tides, row.shape);
    ZI_TRY(zi_decide(b, zi_desk_join(b->desk, &spec, now, &job)));

    zico_status st = watch_process(b, job, p->pid);
    if (st < 0) {
        zi_decide(b, zi_desk_leave(b->desk, job, now));
        zi_effects(b);
        return st;
    }
    zi_leases_join(b->estate->leases, job, &row);
    begin_member(b, job, p->pid);
    b->member[job].adopted = true;
    attach(b, p, job);
    zi_log(ZI_LOG_SESSION, "%s (pid %d) joins", row.name, p->pid);
    welcome(b, p, job);
    zi_effects(b);
    return ZICO_OK;
}

/* -- leaving ---------------------------------------------------------------------------------- */

void
zi_member_leave(zi_broker *b, zi_job_id job, const char *why)
{
    zi_member *m = &b->member[job];
    zi_peer   *p = zi_member_peer(b, job);
    uint64_t   now = b->os->now_ns(b->os);
    zi_waiting w = {0};

    zi_status_watchers(b, true);
    zi_log(ZI_LOG_SESSION, "%s (pid %d) leaves: %s", row_of(b, job)->name, m->pid, why);
    if (p) {
        p->job = ZI_JOB_NONE;
        p->state = ZI_PEER_DONE;
    }
    if (m->adopted) {
        const zi_job_view  *v = zi_desk_job(b->desk, job);
        const zi_table_row *row = row_of(b, job);
        bool tells = v && v->tide && zi_job_plans_as_it_likes(v); /* of its next run */
        if (tells && row->shape)
            zi_tide_store_put(b->tides, row->shape, v->tide);
        else if (tells)
            zi_tide_store_keep(b->tides, row->name, v->tide);
        zi_desk_waiting(b->desk, job, &w);
        b->exchanged_bytes += w.exchanged_bytes;
        zico_status st = zi_decide(b, zi_desk_leave(b->desk, job, now));
        zi_assert(st >= 0);
    }
    zi_leases_leave(b->estate->leases, job);
    end_member(b, job);
    b->booked = b->changed = true;
    zi_effects(b);
    zi_member_check_hold(b);
}

/* Nobody is there to hear an answer: what waits is forgotten, and asked again by REJOIN. */
static void
cancel_waiting(zi_broker *b, zi_job_id job)
{
    const zi_ledger *l = zi_desk_ledger(b->desk);
    uint32_t         seq[ZI_LEDGER_REQS_PER_JOB + 2];
    size_t           n = 0;
    uint64_t         now = b->os->now_ns(b->os);

    for (size_t i = 0; i < zi_ledger_n_requests(l) && n < ZI_LEDGER_REQS_PER_JOB; i++)
        if (zi_ledger_request(l, i)->job == job) seq[n++] = zi_ledger_request(l, i)->seq;
    if (b->member[job].step_seq) seq[n++] = b->member[job].step_seq;
    if (b->member[job].raise_seq) seq[n++] = b->member[job].raise_seq;
    for (size_t i = 0; i < n; i++)
        zi_decide(b, zi_desk_cancel(b->desk, job, seq[i], now));
    b->member[job].step_seq = b->member[job].raise_seq = 0;
}

void
zi_member_lost(zi_broker *b, zi_job_id job)
{
    zi_member *m = &b->member[job];

    zi_log(ZI_LOG_SESSION, "%s (pid %d) has hung up; its leases stay while it lives",
           row_of(b, job)->name, m->pid);
    m->peer = ZI_PEER_NONE;
    atomic_store(&row_of(b, job)->connected, 0u);
    if (m->adopted) cancel_waiting(b, job);
    zi_effects(b);
}

/* -- coming back -------------------------------------------------------------------------------- */

/* What was learnt of a job before the restart, as a tide that errs on the safe side: all of it
 * from the first moment to the last.  A learnt claim is 5 % above the worst step. */
static const zi_tide *
learnt_tide(const zi_table_row *r, zi_tide *t)
{
    uint64_t worst = r->learnt_bytes / 21 * 20;

    if (r->claim_bytes > 0 || worst == 0) return NULL;
    *t = (zi_tide){.n_points = 2, .n_seen = 1, .peak_bytes = worst};
    t->length_ns = r->step_ns ? r->step_ns : 1;
    t->point[0] = (zi_tide_point){0, (int64_t)worst};
    t->point[1] = (zi_tide_point){t->length_ns, -(int64_t)worst};
    return t;
}

/* Tell the desk of a listed job: what the table says it holds. */
static zico_status
adopt(zi_broker *b, zi_job_id job, bool in_step, uint64_t step_no, uint64_t private_bytes)
{
    const zi_leases *t = b->estate->leases;
    zi_ledger       *l = zi_desk_ledger(b->desk);
    zi_job_spec      spec = spec_of_row(row_of(b, job));
    zi_tide          tide;
    uint64_t         now = b->os->now_ns(b->os);

    spec.known_tide = learnt_tide(row_of(b, job), &tide);
    if (row_of(b, job)->in_step) spec.step_claim_bytes = row_of(b, job)->step_claim_bytes;
    ZI_TRY(zi_desk_adopt(b->desk, job, &spec, in_step, step_no, now));
    b->member[job].adopted = true;
    if (row_of(b, job)->paused)
        ZI_TRY(zi_desk_control(b->desk, job, ZI_CONTROL_PAUSE, now));
    for (uint32_t i = 0; i < t->head->n_regions; i++)
        if (zi_leases_owner(t, i) == job)
            ZI_TRY(zi_ledger_adopt_region(l, job, i, zi_leases_hold(t, i)));
    if (private_bytes > 0) ZI_TRY(zi_ledger_adopt_private(l, job, private_bytes));
    atomic_store(&row_of(b, job)->private_bytes, private_bytes);
    atomic_store(&row_of(b, job)->in_step, (uint32_t)in_step);
    return ZICO_OK;
}

static void
adopt_from_table(zi_broker *b, zi_job_id job)
{
    const zi_table_row *r = row_of(b, job);
    zico_status         st = adopt(b, job, r->in_step != 0, r->step_no, r->private_bytes);

    if (st >= 0) return;
    zi_log(ZI_LOG_ERROR, "%s cannot be taken over: %s", r->name, zico_status_text(st));
    zi_member_leave(b, job, "what the table says of it cannot be");
}

/* The same broker, a new connection: bring the books in line with what the job says. */
static zico_status
reconcile(zi_broker *b, zi_job_id job, const zi_msg_rejoin *m)
{
    zi_ledger         *l = zi_desk_ledger(b->desk);
    const zi_job_view *v = zi_desk_job(b->desk, job);
    uint64_t           now = b->os->now_ns(b->os);
    uint64_t           had = zi_ledger_job_of(l, job)->private_bytes;
    bool               running = v && v->state == ZI_JOB_RUNNING;

    if (running && !m->in_step)
        ZI_TRY(zi_decide(b, zi_desk_step_end(b->desk, job, m->step_no, NULL, 0, 0, now)));
    if (m->private_bytes > had)
        ZI_TRY(zi_ledger_adopt_private(l, job, m->private_bytes - had));
    if (m->private_bytes < had)
        ZI_TRY(zi_decide(b, zi_desk_uncharge(b->desk, job, had - m->private_bytes, now)));
    atomic_store(&row_of(b, job)->private_bytes, m->private_bytes);
    atomic_store(&row_of(b, job)->in_step, (uint32_t)m->in_step);
    return ZICO_OK;
}

/* The highest seq that the table may have to answer for. */
static uint32_t
highest_seq(const zi_leases *t, zi_job_id job)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < t->head->n_regions; i++)
        if (zi_leases_owner(t, i) == job && t->region[i].seq > most)
            most = t->region[i].seq;
    return most;
}

/* A broker that started from nothing inherits from the first job that comes back. */
static zico_status
inherit(zi_broker *b, zi_peer *p)
{
    zico_status st;

    if (p->n_came == 0) return ZICO_OK;
    if (zi_estate_is_pool(b->estate, p->came[0])) return ZICO_OK;
    if (b->n_members > 0 || p->n_came != 2) return ZICO_E_GONE;
    p->n_came = 0; /* the estate's, whatever comes of it */
    ZI_TRY(zi_estate_take_over(b->estate, p->came[0], p->came[1]));
    zi_log(ZI_LOG_PROCESS,
           "taking over the pool that the jobs of an earlier broker hold");

    const zi_table_head *h = b->estate->leases->head;
    zi_desk             *desk = b->desk;
    zi_desk_options      opt = {.shape = {.region_bytes = h->region_bytes,
                                          .n_regions = h->n_regions,
                                          .budget_bytes = b->opt.budget_bytes},
                                .n_cores = b->estate->dev->ops->n_cores(b->estate->dev),
                                .policy = b->policy,
                                .seed = b->opt.seed};
    st = zi_desk_new(&opt, &b->desk);
    if (st < 0) {
        b->desk = desk;
        b->ending = true; /* neither the old pool nor the new one can be served */
        return st;
    }
    zi_desk_free(desk);
    b->wake_ns = UINT64_MAX;
    b->estate->leases->head->budget_bytes = b->opt.budget_bytes;
    atomic_fetch_add(&b->estate->leases->head->epoch, 1u);
    return zi_member_list(b);
}

zico_status
zi_member_rejoin(zi_broker *b, zi_peer *p, const zi_msg_rejoin *m)
{
    zi_job_id job = m->job;

    ZI_TRY(zi_wire_agree(m->min_version, m->max_version, &p->version));
    ZI_TRY(inherit(b, p));
    if (job >= ZI_LEDGER_JOBS_MAX || !b->member[job].live ||
        b->member[job].pid != p->pid || row_of(b, job)->token != m->token)
        return ZICO_E_GONE;
    zi_peer *old = zi_member_peer(b, job);
    if (old) {
        old->job = ZI_JOB_NONE;
        old->state = ZI_PEER_DONE;
        cancel_waiting(b, job);
    }
    if (b->member[job].adopted)
        ZI_TRY(reconcile(b, job, m));
    else
        ZI_TRY(adopt(b, job, m->in_step, m->step_no, m->private_bytes));
    b->member[job].replay_seq = highest_seq(b->estate->leases, job);
    attach(b, p, job);
    zi_log(ZI_LOG_SESSION, "%s (pid %d) is back", row_of(b, job)->name, p->pid);
    welcome(b, p, job);
    if (b->member[job].awaited) {
        b->member[job].awaited = false;
        b->n_awaited--;
    }
    b->changed = true;
    zi_effects(b);
    zi_member_check_hold(b);
    return ZICO_OK;
}

/* -- after a restart --------------------------------------------------------------------------- */

/* Is the process of that row still the one that joined? */
static zico_status
list_row(zi_broker *b, zi_job_id job)
{
    zi_table_row *r = row_of(b, job);
    uint64_t      started = 0;
    zico_status   st;

    zi_leases_repair(b->estate->leases, job);
    st = watch_process(b, job, (int32_t)r->pid);
    if (st >= 0) st = read_stat(b, (int32_t)r->pid, STAT_STARTED, &started);
    if (st == ZICO_E_NOTFOUND || (st >= 0 && started != r->started)) {
        zi_log(ZI_LOG_SESSION, "%s (pid %u) died meanwhile", r->name, r->pid);
        end_member(b, job);
        zi_leases_leave(b->estate->leases, job);
        return ZICO_OK;
    }
    if (st < 0) {
        end_member(b, job);
        return st;
    }
    begin_member(b, job, (int32_t)r->pid);
    b->member[job].listed_ns = b->os->now_ns(b->os);
    if (r->state == ZI_TABLE_LIVE && r->connected) {
        b->member[job].awaited = true;
        b->n_awaited++;
    }
    return ZICO_OK;
}

zico_status
zi_member_list(zi_broker *b)
{
    for (zi_job_id j = 0; j < ZI_LEDGER_JOBS_MAX; j++)
        if (row_of(b, j)->state != ZI_TABLE_FREE) ZI_TRY(list_row(b, j));
    b->grace_until_ns = 0;
    if (b->n_members == 0) return ZICO_OK;
    zi_log(ZI_LOG_PROCESS,
           "%u jobs are listed, %u of them must report before anything is "
           "granted",
           b->n_members, b->n_awaited);
    b->holding = true;
    b->hold_until_ns = b->os->now_ns(b->os) + b->opt.rejoin_wait_ns;
    zi_desk_hold(b->desk, true, b->os->now_ns(b->os));
    for (zi_job_id j = 0; j < ZI_LEDGER_JOBS_MAX; j++)
        if (b->member[j].live && !b->member[j].awaited && !b->member[j].adopted)
            adopt_from_table(b, j);
    return ZICO_OK;
}

/* Regions that nobody holds but whose pages may be there: kept if they fit, else given
 * back. */
static void
adopt_idle(zi_broker *b)
{
    zi_estate       *e = b->estate;
    zi_ledger       *l = zi_desk_ledger(b->desk);
    zi_ledger_totals sum;

    for (uint32_t i = 0; i < e->shape.n_regions; i++) {
        if (!zi_leases_resident(e->leases, i) || zi_ledger_owner(l, i) != ZI_JOB_NONE)
            continue;
        zi_ledger_sum(l, &sum);
        uint64_t use = sum.leased_bytes + sum.idle_bytes + sum.private_bytes;
        if (use + e->shape.region_bytes <= sum.target_bytes &&
            zi_ledger_adopt_idle(l, i) >= 0)
            continue;
        if (e->dev->ops->pool_punch(e->pool, i, 1) >= 0)
            zi_leases_cold(e->leases, &(zi_run){.first = i, .n = 1}, 1);
    }
}

static void
release(zi_broker *b)
{
    uint64_t now = b->os->now_ns(b->os);

    b->holding = false; /* the desk still holds */
    for (zi_job_id j = 0; j < ZI_LEDGER_JOBS_MAX; j++) {
        zi_member *m = &b->member[j];
        if (!m->live || m->adopted) continue;
        zi_log(ZI_LOG_ERROR,
               "%s (pid %d) has not reported: its leases stay as the table has them",
               row_of(b, j)->name, m->pid);
        if (m->awaited) b->n_awaited--;
        m->awaited = false;
        adopt_from_table(b, j);
    }
    adopt_idle(b);
    zi_log(ZI_LOG_PROCESS, "all listed jobs are accounted for: going on");
    zi_desk_hold(b->desk, false, now);
    b->booked = b->changed = true;
    zi_effects(b);
    zi_handle_held(b);
}

/* Rows whose WELCOME may never have arrived hold nothing; they are not kept for ever. */
static void
drop_joining(zi_broker *b, uint64_t now)
{
    for (zi_job_id j = 0; j < ZI_LEDGER_JOBS_MAX; j++)
        if (b->member[j].live && row_of(b, j)->state == ZI_TABLE_JOINING &&
            now - b->member[j].listed_ns > ZI_JOINING_KEEP_NS)
            zi_member_leave(b, j, "it never finished joining");
}

void
zi_member_check_hold(zi_broker *b)
{
    uint64_t now = b->os->now_ns(b->os);

    if (b->holding && (b->n_awaited == 0 || now >= b->hold_until_ns)) release(b);
    if (b->grace_until_ns && now >= b->grace_until_ns) {
        b->grace_until_ns = 0;
        zi_handle_held(b);
    }
    if (b->n_members > 0) drop_joining(b, now);
}
