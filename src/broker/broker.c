/* broker.c -- making a broker, running it, ending it in order. */
#include "broker/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include "base/alloc.h"
#include "base/log.h"
#include "base/try.h"

#define REJOIN_WAIT_NS 30000000000u
#define GRACE_NS       2000000000u
#define FLOOD_PER_S    200000u
#define SLICE_NS       100000u /* jobs compute on all cores, and wait for what it says */

static void
fill_options(zi_broker *b, const zi_broker_options *opt)
{
    b->opt = *opt;
    if (b->opt.rejoin_wait_ns == 0) b->opt.rejoin_wait_ns = REJOIN_WAIT_NS;
    if (b->opt.grace_ns == 0) b->opt.grace_ns = GRACE_NS;
    if (b->opt.flood_per_s == 0) b->opt.flood_per_s = FLOOD_PER_S;
    snprintf(b->policy, sizeof b->policy, "%s", opt->policy ? opt->policy : "zico");
    for (zi_job_id j = 0; j < ZI_LEDGER_JOBS_MAX; j++) {
        b->member[j].pidfd = -1;
        b->member[j].peer = ZI_PEER_NONE;
    }
    b->ep = b->stop_fd = b->random_fd = b->parent_fd = -1;
    b->wake_ns = UINT64_MAX;
    b->empty_since_ns = b->os->now_ns(b->os);
}

static zico_status
take_fd(long rc, int *ret_fd)
{
    if (rc < 0) return zi_os_status(rc);
    *ret_fd = (int)rc;
    return ZICO_OK;
}

static zico_status
open_loop(zi_broker *b)
{
    const zi_os *os = b->os;

    ZI_TRY(take_fd(os->epoll_new(os, 0), &b->ep));
    ZI_TRY(take_fd(os->event_fd(os, 0), &b->stop_fd));
    ZI_TRY(take_fd(os->open_file(os, "/dev/urandom", O_RDONLY, 0), &b->random_fd));
    long rc = zi_loop_watch(b, b->stop_fd, EPOLLIN, zi_loop_tag(ZI_TAG_STOP, 0, 0));
    if (rc >= 0)
        rc = zi_loop_watch(b, b->estate->listen_fd, EPOLLIN,
                           zi_loop_tag(ZI_TAG_LISTEN, 0, 0));
    return zi_os_status(rc);
}

static zico_status
open_desk(zi_broker *b)
{
    zi_estate      *e = b->estate;
    zi_desk_options opt = {.shape = {.region_bytes = e->shape.region_bytes,
                                     .n_regions = e->shape.n_regions,
                                     .budget_bytes = e->leases->head->budget_bytes},
                           .n_cores = e->dev->ops->n_cores(e->dev),
                           .policy = b->policy,
                           .seed = b->opt.seed};

    return zi_desk_new(&opt, &b->desk);
}

zico_status
zi_broker_new(const zi_broker_options *opt, zi_estate *estate, zi_broker **ret_broker)
{
    zico_status st = ZICO_OK;
    zi_broker  *b = zi_calloc(1, sizeof *b);
    if (!b) return ZICO_E_NOMEM;

    b->os = opt->os ? opt->os : zi_os_real();
    fill_options(b, opt);
    b->estate = estate;
    if (!estate) {
        st = zi_estate_open(opt, &b->estate);
        b->owns_estate = st >= 0;
    }
    if (st >= 0) st = open_desk(b);
    if (st >= 0) st = zi_tide_store_new(b->os, opt->tides_dir, &b->tides);
    if (st >= 0) st = open_loop(b);
    if (st >= 0) {
        atomic_fetch_add(&b->estate->leases->head->epoch, 1u);
        st = zi_member_list(b);
    }
    if (st < 0) {
        zi_broker_free(b);
        return st;
    }
    if (b->n_members == 0 && b->estate->unclean)
        b->grace_until_ns = b->os->now_ns(b->os) + b->opt.grace_ns;
    zi_member_check_hold(b);
    *ret_broker = b;
    return ZICO_OK;
}

const char *
zi_broker_socket(const zi_broker *b)
{
    return b->estate->path;
}

void
zi_broker_stop(zi_broker *b)
{
    b->os->wake(b->os, b->stop_fd);
}

zico_status
zi_broker_watch_parent(zi_broker *b, int32_t pid)
{
    long rc = b->os->pidfd(b->os, pid);

    if (rc == -ESRCH) {
        b->orphaned = true; /* already */
        return ZICO_OK;
    }
    ZI_TRY(take_fd(rc, &b->parent_fd));
    rc = zi_loop_watch(b, b->parent_fd, EPOLLIN, zi_loop_tag(ZI_TAG_PARENT, 0, 0));
    return zi_os_status(rc);
}

/* Everybody hears that it is over, and that there is no successor. */
static void
say_goodbye(zi_broker *b)
{
    for (uint32_t i = 0; i < ZI_PEERS_MAX; i++)
        if (b->peer[i])
            zi_peer_refuse(b, b->peer[i], ZICO_E_GONE, "the broker has ended");
}

zico_status
zi_broker_run(zi_broker *b)
{
    zico_status st = ZICO_OK;

    (void)b->os->slice(b->os, SLICE_NS); /* or it is woken like everybody */
    while (!b->ending && !b->orphaned && st >= 0) st = zi_broker_turn(b, -1);
    if (st >= 0 && b->orphaned && !b->ending) return ZICO_E_GONE;
    if (st < 0) {
        zi_log(ZI_LOG_ERROR, "the loop fails: %s", zico_status_text(st));
        return st;
    }
    say_goodbye(b);
    b->estate->unclean = false;
    return ZICO_OK;
}

static void
close_fd(zi_broker *b, int fd)
{
    if (fd >= 0) b->os->close(b->os, fd);
}

void
zi_broker_free(zi_broker *b)
{
    if (!b) return;
    for (zi_job_id j = 0; j < ZI_LEDGER_JOBS_MAX; j++) {
        zi_member *m = &b->member[j];
        close_fd(b, m->pidfd);
        zi_tide_recorder_free(m->recorder);
        zi_free(m->tide);
    }
    for (uint32_t i = 0; i < ZI_PEERS_MAX; i++) {
        if (!b->peer[i]) continue;
        b->peer[i]->job = ZI_JOB_NONE; /* it is not lost: we are */
        zi_peer_close(b, b->peer[i]);
    }
    close_fd(b, b->parent_fd);
    close_fd(b, b->random_fd);
    close_fd(b, b->stop_fd);
    close_fd(b, b->ep);
    zi_desk_free(b->desk);
    zi_tide_store_free(b->tides);
    if (b->owns_estate) zi_estate_close(b->estate, true);
    zi_free(b);
}
