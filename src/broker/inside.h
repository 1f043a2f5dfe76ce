/* broker/inside.h -- what the files of this room share.
 *
 * A *peer* is a connection (peer.c).  A *member* is a job, with or without a connection
 * (member.c); its index is its row in ledger and lease table.
 */
#ifndef ZI_BROKER_INSIDE_H
#define ZI_BROKER_INSIDE_H

#include "broker/estate.h"
#include "broker/tide_store.h"
#include "broker/timing.h"
#include "policy/desk.h"
#include "tide/tide.h"
#include "wire/wire.h"

#define ZI_PEERS_MAX 2048u /* connections */
#define ZI_PEER_NONE UINT32_MAX
#define ZI_PEER_PACKETS_MAX                                                              \
    2048u /* not yet read by the peer (a whole STATUS fits); more: it is dropped */
#define ZI_PEER_BYTES_MAX  (1u << 20)
#define ZI_PEER_EXCESS_MAX 64u       /* requests beyond ZI_LEDGER_REQS_PER_JOB: a flood */
#define ZI_TURN_MESSAGES   16u       /* read from one peer before it is another's turn */
#define ZI_WATCH_EVERY_NS  50000000u /* 20 a second */
#define ZI_DEAF_NS         100000000u /* between two tries to accept when nothing is left */
#define ZI_JOINING_KEEP_NS 10000000000u

typedef enum zi_peer_state {
    ZI_PEER_NEW,  /* has said nothing yet                                   */
    ZI_PEER_HELD, /* its HELLO waits until the listed jobs have reported    */
    ZI_PEER_JOB,  /* speaks for member `job`                                */
    ZI_PEER_TOOL, /* asks about and for others                              */
    ZI_PEER_DONE, /* will be closed at the end of this turn                 */
} zi_peer_state;

typedef struct zi_packet zi_packet;
struct zi_packet {
    zi_packet *next;
    size_t     len;
    bool       with_fds;
    char       bytes[];
};

typedef struct zi_peer {
    uint32_t      index;
    uint64_t      since;      /* its number in the order of connecting */
    uint32_t      generation; /* tells events of an earlier connection in this place */
    int           fd;
    zi_peer_state state;
    int32_t       pid;
    uint32_t      version; /* agreed; 0: not yet */
    zi_job_id     job;
    zi_packet    *first, *last; /* to be sent */
    uint32_t      n_packets;
    size_t        n_bytes;
    bool          wants_out; /* epoll tells when it reads again */
    bool          watch;
    bool          watch_due; /* something changed since its last STATUS */
    uint32_t      watch_seq;
    uint32_t      n_excess;
    uint64_t      window_ns; /* messages are counted from here */
    uint32_t      n_window;
    zi_msg       *hello;   /* HELD */
    int           came[2]; /* descriptors that came with the message being handled */
    size_t        n_came;
} zi_peer;

typedef struct zi_member {
    bool              live;
    bool              adopted; /* the desk knows it (always, but after a restart)     */
    bool              awaited; /* B4: nothing is granted until it reports or dies     */
    uint32_t          peer;    /* ZI_PEER_NONE: absent                                */
    uint32_t          generation;
    int               pidfd;
    int32_t           pid;
    uint32_t          step_seq;   /* of the STEP_ASK that waits; 0: none             */
    uint32_t          raise_seq;  /* of its last RAISE; 0: none                      */
    uint32_t          replay_seq; /* highest seq with regions in the table at a rejoin */
    uint64_t          listed_ns;  /* after a restart: since when it is listed        */
    zi_tide_recorder *recorder;   /* NULL: no TIDE came yet                          */
    zi_tide          *tide;       /* the last complete one                           */
    bool              has_tide;
    uint64_t          samples;
    int64_t           loss_micro;
    char              note[256];
} zi_member;

struct zi_broker {
    zi_broker_options opt;
    const zi_os      *os;
    zi_estate        *estate;
    bool              owns_estate;
    zi_desk          *desk;
    zi_tide_store    *tides;
    int               ep, stop_fd, random_fd, parent_fd;
    bool              ending;   /* orderly */
    bool              orphaned; /* whoever supervised us is dead */
    char              policy[32];

    zi_peer  *peer[ZI_PEERS_MAX];
    uint32_t  n_peers;
    uint32_t  peer_generation;
    uint64_t  n_accepted;
    zi_member member[ZI_LEDGER_JOBS_MAX];
    uint32_t  n_members;
    uint32_t  n_awaited;
    bool      holding; /* B4 */
    uint64_t  hold_until_ns;
    uint64_t  grace_until_ns; /* 0: no grace */
    uint64_t  deaf_until_ns;  /* no descriptor was left for a newcomer; 0: all is well */
    uint64_t  empty_since_ns;
    uint64_t  wake_ns;    /* the desk's; UINT64_MAX: none */
    uint64_t  watched_ns; /* last STATUS to watchers */
    bool      changed;    /* since then */
    bool      booked;     /* memory changed hands in this turn: check B5 */
    bool      over;       /* B5 was violated when last looked at */
    uint64_t  n_over;
    uint64_t  exchanged_bytes; /* of jobs that have left */
    zi_timing timing;

    zi_msg msg; /* being handled */
    zi_msg out; /* being made */
    char   packet[ZI_WIRE_MAX];
    char   incoming[ZI_WIRE_MAX];
};

/* -- peer.c --------------------------------------------------------------------------------- */
void zi_peer_accept(zi_broker *b);
void zi_peer_listen(zi_broker *b, bool listen); /* false: not now, we could not accept */
void zi_peer_ready(zi_broker *b, zi_peer *p, uint32_t events);
/* Sends b->out, or queues it; drops a peer that lets too much pile up. */
void zi_peer_send(zi_broker *b, zi_peer *p, bool with_fds);
/* REFUSE with these words, a line in the log, and the end of the connection. */
void zi_peer_refuse(zi_broker *b, zi_peer *p, zico_status st, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Closes it now. */
void zi_peer_close(zi_broker *b, zi_peer *p);
/* Begin a message to send: clears b->out. */
zi_msg *zi_peer_compose(zi_broker *b, zi_msg_type type, uint32_t seq);

/* -- handle.c ------------------------------------------------------------------------------- */
void zi_handle(zi_broker *b, zi_peer *p); /* b->msg */
void zi_handle_held(zi_broker *b);        /* the hold is over: answer HELLOs */

/* -- member.c ------------------------------------------------------------------------------- */
zico_status zi_member_join(zi_broker *b, zi_peer *p, const zi_msg_hello *hello);
zico_status zi_member_rejoin(zi_broker *b, zi_peer *p, const zi_msg_rejoin *rejoin);
void        zi_member_leave(zi_broker *b, zi_job_id job, const char *why);
void        zi_member_lost(zi_broker *b, zi_job_id job); /* its connection is gone */
void        zi_member_check_hold(zi_broker *b);
/* After a restart: take the rows of the table for listed jobs. */
zico_status zi_member_list(zi_broker *b);
zi_peer    *zi_member_peer(zi_broker *b, zi_job_id job); /* NULL: absent */
zi_job_id   zi_member_find(zi_broker *b, const char *name);

/* -- effects.c ------------------------------------------------------------------------------ */
void zi_effects(zi_broker *b); /* carry out what the desk decided */
void zi_effects_deny(zi_broker *b, zi_job_id job, uint32_t seq, zico_status st,
                     uint64_t asked_bytes, uint64_t had_bytes);
/* The answer to a LEASE sent again after a restart, if the table has it. */
bool zi_effects_replay(zi_broker *b, zi_job_id job, uint32_t seq);
/* What the job claims, so that a successor need not learn it anew. */
void zi_effects_note_claim(zi_broker *b, zi_job_id job);
/* One line a step at --log-level 3: word, job, nanoseconds of the machine's clock, a number. */
void zi_effects_log_step(zi_broker *b, const char *word, zi_job_id job, uint64_t value);
void zi_effects_check_budget(zi_broker *b); /* B5 */

/* -- broker_status.c, people.c ----------------------------------------------------------------- */
void zi_status_send(zi_broker *b, zi_peer *p, uint32_t seq);
void zi_status_watchers(zi_broker *b, bool last);
void zi_people_limit(zi_broker *b, zi_peer *p, uint32_t seq, const zi_msg_limit *m);
void zi_people_control(zi_broker *b, zi_peer *p, uint32_t seq, const zi_msg_control *m);

/* -- loop.c --------------------------------------------------------------------------------- */
typedef enum zi_tag {
    ZI_TAG_LISTEN,
    ZI_TAG_STOP,
    ZI_TAG_PARENT,
    ZI_TAG_PEER,
    ZI_TAG_MEMBER,
} zi_tag;
uint64_t zi_loop_tag(zi_tag tag, uint32_t index, uint32_t generation);
long     zi_loop_watch(zi_broker *b, int fd, uint32_t events, uint64_t tag);
/* A call of the desk, with its time taken. */
#define zi_decide(b, call)                                                               \
    (zi_timing_begin(&(b)->timing, (b)->os), (b)->changed = true,                        \
     zi_timing_end(&(b)->timing, (b)->os, (call)))

#endif /* ZI_BROKER_INSIDE_H */
