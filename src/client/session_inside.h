/* client/session_inside.h -- the session's state, shared by the files of this room only.
 *
 * LOCK     One mutex, `mu`, guards everything not marked otherwise.  It is never held
 *          across a wait, a device call that may block, or a call to a watcher.
 *          Order: locks of the layer above (arena) first, then mu.
 * READING  At most one thread reads the socket (`reading`): a thread that waits for an
 *          answer, else the keeper.  It reads without mu into rx and dispatches with mu.
 * STATES   LOCAL    no broker at all
 *          JOINED   connected
 *          GONE     the broker died; the keeper looks for its successor
 *          REFUSED  the broker does not want us: private memory from now on
 */
#ifndef ZI_SESSION_INSIDE_H
#define ZI_SESSION_INSIDE_H

#include "client/session.h"

#include <pthread.h>
#include <stdatomic.h>

#define ZI_SESSION_AHEAD_MAX   2u          /* regions asked ahead, or held so        */
#define ZI_SESSION_GRACE_NS    2000000000u /* how long a request waits for a new broker */
#define ZI_SESSION_LATE_NS     500000000u  /* after a deadline, for the broker's answer */
#define ZI_SESSION_REJOIN_NS   100000000u  /* between two looks for a new broker     */
#define ZI_SESSION_SEND_NS     5000000000u /* a broker that does not read is gone     */
#define ZI_SESSION_RUNS_INLINE 16u
#define ZI_SESSION_NO_REGION   UINT32_MAX

typedef enum zi_link_state {
    ZI_LINK_LOCAL,
    ZI_LINK_JOINED,
    ZI_LINK_GONE,
    ZI_LINK_REFUSED,
} zi_link_state;

/* A request whose answer is awaited.  Lives with whoever asked. */
typedef struct zi_pending {
    struct zi_pending *next;
    struct { /* as it was sent, for a successor of the broker */
        zi_msg_type type;
        uint32_t    seq;
        uint64_t    deadline_ns; /* UINT64_MAX: none */
        union {
            zi_msg_lease    lease;
            zi_msg_charge   charge;
            zi_msg_step_ask step_ask;
            zi_msg_raise    raise;
        };
    } ask;
    bool        answered;
    bool        listed;
    zico_status status;
    uint64_t    size_bytes;
    uint32_t    n_regions; /* granted so far */
    uint32_t    n_runs, runs_cap;
    zi_run     *runs;
    zi_run      few[ZI_SESSION_RUNS_INLINE];
} zi_pending;

typedef enum zi_region_state {
    ZI_REGION_OTHERS,  /* not ours                                   */
    ZI_REGION_HELD,    /* in a lease                                 */
    ZI_REGION_STOCK,   /* taken ahead, not used yet                  */
    ZI_REGION_FILLING, /* taken ahead, the keeper makes it present   */
} zi_region_state;

/* A lease and what happens to it after it was given back. */
typedef struct zi_slot {
    zi_lease        lease;  /* of the lease that starts here                       */
    uint32_t        region; /* shown here; NO_REGION: private memory, or nothing    */
    bool            used;   /* belongs to some lease                               */
    bool            held;   /* the lease that starts here is in a caller's hands    */
    bool            away;   /* ... its bytes are in a file, and nothing is charged   */
    zi_fence       *after;  /* given back, waits for this (kept)                    */
    uint64_t        mark;
    struct zi_slot *next; /* in the queue of returns */
} zi_slot;

struct zi_session {
    /* constant after open */
    zi_session_options   opt;
    char                 socket_path[108], job_name[64], shape_key[128];
    const zi_os         *os;
    const zi_device_ops *ops;
    zi_device           *dev;
    zi_pool             *pool;
    zi_pool_shape        shape;
    int                  pool_fd, table_fd; /* kept for a successor of the broker */
    char                *base;
    uint32_t             n_slots; /* 2 x n_regions */
    pthread_t            keeper;
    bool                 keeper_runs;
    int                  wake_fd, epoll_fd;
    struct zi_session   *next_session; /* fork.c's list */

    _Atomic bool usable; /* false: forked or poisoned */

    pthread_mutex_t mu;
    pthread_cond_t  changed; /* an answer came, the reader left, regions came back */

    /* -- the wire ------------------------------------------------------------------ */
    zi_link_state state;
    int           sock;
    uint32_t      version;
    uint32_t      next_seq;
    uint32_t      job;
    uint64_t      token, epoch;
    uint64_t      gone_since_ns;
    zi_pending   *pending;
    bool          reading; /* somebody reads the socket          */
    unsigned      n_waiting;
    bool          armed; /* the keeper's epoll looks at the socket */
    bool          stop;  /* the keeper ends                    */
    uint8_t      *rx;    /* the reader's                       */
    zi_msg       *rx_msg;
    uint8_t      *tx; /* under mu */
    zi_msg       *tx_msg;
    char          message[768];

    /* -- memory ------------------------------------------------------------------------ */
    zi_slot   *slots;        /* n_slots */
    uint8_t   *region_state; /* n_regions, zi_region_state */
    uint8_t   *populated;    /* n_regions, this job has touched it */
    uint32_t   n_stock;
    uint64_t   held_bytes; /* hold_step: the most held in this step so far */
    uint32_t   recall;     /* regions the broker wants back */
    zi_pending ahead;      /* the one request ahead         */
    bool       ahead_flies;
    uint32_t   ahead_wants; /* regions in the request that flies */
    zi_slot   *returns, **returns_tail;
    zi_run     out[512]; /* RETURN being put together */
    uint32_t   n_out;
    uint32_t   n_local_free; /* LOCAL: regions free for taking */
    uint64_t   private_bytes, uncharged_bytes, outside_bytes, away_bytes;

    /* -- steps ---------------------------------------------------------------------------- */
    zi_tide_recorder *recorder;
    bool              tide_by_caller;
    bool              tide_wanted; /* the broker did not see this step begin */
    bool              in_step, suspend_asked, suspend_cold, resume_asked, suspended;
    uint64_t          step_no, step_start_ns, step_stall_ns, step_peak_bytes;
    uint64_t          step_bytes;       /* leased, not fixed */
    uint64_t          step_claim_bytes; /* declared or raised; 0: the broker learns it */
    bool              raising;          /* a RAISE flies: one at a time */
    zi_tide           tide;

    _Atomic unsigned    cores;      /* told last; read by kernels without the lock */
    _Atomic unsigned    first_core; /* likewise */
    uint64_t            budget_bytes;
    uint64_t            told_limit; /* by zi_session_limit; 0: nobody plans by it */
    zi_session_wish     wish;       /* SHRINK, told last */
    bool                wish_new;   /* ... and nobody has looked at it yet */
    zico_stats          stats;
    zi_session_watcher *watchers; /* guarded by watch_mu */
    pthread_mutex_t     watch_mu;
};

/* -- job_link.c ------------------------------------------------------------------------- */
/* Connect and HELLO; fills shape, descriptors and the rest from WELCOME. */
zico_status zi_link_join(zi_session *s);
/* One packet with descriptors into s->rx, while nobody else reads; -EAGAIN: none came. */
long zi_link_receive(zi_session *s, uint64_t wait_ns, int *fds, size_t *n_fds);
/* With mu held.  Send s->tx_msg; false: the broker is gone (state says so now). */
bool zi_link_send(zi_session *s, const int *fds, size_t n_fds);
/* With mu held.  The broker takes ZI_WIRE_ASKS_MAX requests of a job at a time and drops who sends
 * more again and again: wait until there is room for one.  E_BUSY: deadline 0 and there is none. */
zico_status zi_link_await_room(zi_session *s, uint64_t deadline_ns);
/* With mu held.  Put a request on the list and on the wire, under a new seq.  All but what is taken
 * ahead is awaited at once: from here on the keeper does not look at the socket. */
void zi_link_ask(zi_session *s, zi_pending *p);
/* With mu held.  Wait for the answer; p is off the list afterwards, except that a STEP_ASK
 * comes back unanswered when the broker wants us out or in (suspend_asked, resume_asked), or
 * when the limit is another than the job planned for. */
void zi_link_await(zi_session *s, zi_pending *p);
/* With mu held.  Take an unanswered request back. */
void zi_link_withdraw(zi_session *s, zi_pending *p);
/* Since zi_session_limit was asked; with mu held. */
bool zi_limit_has_changed(zi_session *s);
/* With mu held.  Others would like it to take so much. */
void zi_limit_wish(zi_session *s, zi_session_wish wish);
/* With mu held: we are out (or could not go: st < 0). */
void zi_step_tell_suspended(zi_session *s, uint64_t out_bytes, zico_status st);
void zi_link_send_pending(zi_session *s, zi_pending *p); /* again, to a successor */
/* With mu held, by the keeper: read what is there, without waiting. */
void zi_link_read_now(zi_session *s);
void zi_link_arm(zi_session *s, bool on);
void zi_link_hang_up(zi_session *s);
/* An empty message of this type in s->tx_msg, with mu held. */
zi_msg *zi_link_message(zi_session *s, zi_msg_type type);

/* -- rejoin.c ------------------------------------------------------------------------------ */
/* With mu held, by the keeper: look for a new broker. */
void zi_rejoin_try(zi_session *s);

/* -- keeper.c ------------------------------------------------------------------------------ */
zico_status zi_keeper_start(zi_session *s);
void        zi_keeper_stop(zi_session *s);
void        zi_keeper_wake(zi_session *s);

/* -- lease.c --------------------------------------------------------------------------------- */
zico_status zi_lease_space_open(zi_session *s);
void        zi_lease_space_close(zi_session *s);
/* With mu held. */
void
zi_lease_take_stock(zi_session *s, zi_pending *p); /* an answer to LEASE ahead came  */
void zi_lease_drop_runs(zi_session *s, const zi_run *runs, uint32_t n_runs);
void zi_lease_finish_returns(zi_session *s); /* whose fences are complete  */
void zi_lease_drop_stock(zi_session *s, uint32_t n);
void zi_lease_forget_pages(zi_session *s); /* the pool's, as seen by this process */
void zi_lease_fill_stock(zi_session *s);   /* releases mu meanwhile      */
void zi_lease_flush(zi_session *s);        /* send the RETURN put together */
void zi_lease_note_held(zi_session *s, uint64_t at_ns); /* for hold_step */
/* Leased bytes rise or fall. */
void zi_lease_count(zi_session *s, zico_class cls, int64_t delta_bytes, uint64_t at_ns);
/* Private memory of a lease: it no longer counts, here and at the broker. */
void zi_lease_uncharge(zi_session *s, uint64_t size_bytes);
/* The next run of the pool's own slots, from *at on, that show the pool; false: there is none. */
bool zi_lease_next_shown(const zi_session *s, uint32_t *at, zi_run *ret_run);
/* Bytes of leases and charges, for the peak. */
void zi_lease_count_peak(zi_session *s);

/* -- client_step.c ---------------------------------------------------------------------------- */
/* With mu held, inside a step: a claim of claim_bytes in all, if it is less yet. */
zico_status zi_step_raise(zi_session *s, uint64_t claim_bytes, uint64_t deadline_ns);

/* -- local_pool.c ------------------------------------------------------------------------------ */
zico_status zi_local_open(zi_session *s);
zico_status zi_local_take(zi_session *s, zi_pending *p, uint64_t deadline_ns);
void        zi_local_give(zi_session *s, uint32_t first, uint32_t n);
zico_status zi_local_charge(zi_session *s, uint64_t size_bytes, uint64_t deadline_ns);

/* -- client_wait.c -------------------------------------------------------------------------------- */
/* With mu held: sleep on `changed` until the deadline.  False: it has passed. */
bool     zi_wait_until(zi_session *s, uint64_t deadline_ns);
uint64_t zi_wait_deadline(zi_session *s, uint64_t wait_ns); /* 0 stays 0: ask once */
/* Copy what the wire will carry: UTF-8 or '?', cut at a whole character. */
void zi_session_text(char *dst, size_t cap, const char *src);
void
zi_session_say(zi_session *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* -- fork.c ---------------------------------------------------------------------------------------- */
zico_status zi_fork_enlist(zi_session *s);
void        zi_fork_strike(zi_session *s);

#endif /* ZI_SESSION_INSIDE_H */
