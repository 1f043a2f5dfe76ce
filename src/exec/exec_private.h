/* exec_private.h -- the executor inside: shared by the exec*.c files. */
#ifndef ZI_EXEC_PRIVATE_H
#define ZI_EXEC_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include "exec/bind.h"
#include "exec/exec.h"
#include "exec/tier.h"

#define EXEC_RESULTS   64u
#define EXEC_LEAD      8u /* pieces of a step that are issued ahead in a session, at most */
#define EXEC_LEAD_NS   1500000u /* of work that hides the way to the broker */
#define EXEC_CORES_MAX 1024u
#define EXEC_NOWHERE   UINT32_MAX

/* An address that is known once slots have memory. */
typedef struct exec_ref {
    uint32_t slot; /* EXEC_NOWHERE: absent */
    uint64_t offset;
} exec_ref;

/* A fed tensor has a buffer of its own for every step under way. */
typedef struct exec_feed_slot {
    zi_tensor_id tensor;
    uint64_t     bytes;
    char        *extra; /* buffers of ring entries 1 .. */
    exec_ref     home;  /* ring entry 0: where the plan placed it */
} exec_feed_slot;

/* One act, ready to run. */
typedef struct exec_cmd {
    zi_act_kind kind;
    uint32_t    what;
    uint32_t    first_ref; /* RUN, REDO: in, out, up of the node; others: the tensor */
    uint32_t    n_refs;
    exec_ref    scratch;
    uint64_t    tier_at, bytes; /* OUT, IN */
    uint32_t    copy;           /* OUT, IN: which of a run's copies */
} exec_cmd;

/* A run of acts that is queued as one piece of work. */
typedef struct exec_piece {
    uint32_t begin, end;           /* acts */
    uint32_t first_open, n_open;   /* slots in e->open_at  */
    uint32_t first_close, n_close; /* slots in e->close_at */
    uint32_t lead; /* 1 .. EXEC_LEAD: pieces under way, with it, when it is issued */
} exec_piece;

struct exec_run;

/* What a queued piece carries. */
typedef struct exec_job {
    struct exec_run *run;
    uint32_t         piece;
} exec_job;

/* A copy between memory and tier on its way. */
typedef struct exec_copy {
    struct exec_run *run;
    uint32_t         act;
} exec_copy;

/* Where the threads of the compute stream's team run, in a session with a broker. */
typedef struct exec_places {
    unsigned n_all; /* cores that the process began with; 0: the kernel decides */
    int      cpu[EXEC_CORES_MAX];
    unsigned first, n, n_threads; /* as they are now; n = 0: not yet */
    unsigned lead;                /* the core of the thread that leads the team */
} exec_places;

/* What a program needs for each step under way. */
typedef struct exec_lane {
    char     **base;              /* [n_slots + n_feeds] */
    exec_job  *jobs;              /* [n_pieces] */
    exec_copy *copies;            /* [n_copies] */
    uint64_t  *begin_ns, *end_ns; /* [n_acts] */
} exec_lane;

/* A plan made ready: commands, pieces, memory for its slots.  Replaced as a whole. */
typedef struct exec_prog {
    zi_plan       *plan;
    zi_place_stats place;
    bool           passive; /* made on demand: exec/passive.h */

    exec_cmd   *cmds; /* [n_acts] */
    exec_ref   *refs;
    exec_piece *pieces;
    uint32_t    n_pieces, n_copies;
    uint32_t   *open_at, *close_at; /* slots in order of opening, of closing */
    exec_ref   *last_ref;           /* [n_tensors] where a root is at the end of a step */
    uint64_t   *tier_at;            /* [n_tensors] UINT64_MAX: not in the tier */
    uint64_t    tier_bytes;

    char      *memory; /* private: all slots that are not fixed */
    uint64_t   memory_bytes;
    zi_lease **leases; /* [n_slots] in a session */
    zi_fence **slot_fence;
    exec_lane  lane[ZI_EXEC_AHEAD_MAX];
} exec_prog;

/* One step under way. */
typedef struct exec_run {
    zi_exec     *e;
    uint32_t     index;
    exec_lane   *lane; /* of the program at hand */
    zi_fence    *done;
    bool         used;
    uint64_t     step;
    uint64_t     first_ns, last_ns, busy_ns; /* of nodes that are over; first 0: none */
    uint64_t     stall_ns;                   /* compute stream only, as is the next */
    uint64_t     passed_ns;                  /* the end of the last piece; 0: none yet */
    uint64_t     held_bytes; /* before it went on passively; 0: it did not */
    zi_tensor_id bad;
} exec_run;

struct zi_exec {
    zi_exec_options opt;
    const zi_graph *g;
    exec_prog       prog;
    zi_cost        *cost;
    zi_bound       *bound;
    const zi_os    *os;
    zi_device      *dev;
    bool            own_dev;
    zi_stream      *compute, *out, *in; /* out, in: NULL unless the plan swaps */
    zi_session     *session;

    void **ptrs; /* [2 max_refs] of the node that runs; compute stream only */

    exec_feed_slot *feeds;
    uint32_t        n_feeds;
    uint32_t       *feed_of; /* [n_tensors] or EXEC_NOWHERE */

    bool       has_memory; /* for fixed slots and feeds */
    char      *memory;     /* private: all fixed slots */
    uint64_t   memory_bytes;
    bool       fresh; /* nobody has written to it: all zero */
    zi_lease  *fixed; /* in a session: all fixed slots; NULL: none, or out */
    uint64_t   fixed_bytes;
    zi_fence **copy_fence; /* [n_tensors] of what was ever moved; else NULL */
    zi_fence  *made;       /* a point of the compute stream that a copy waits for */
    zi_fence  *lead[EXEC_LEAD];
    uint64_t   lead_next;
    void     **kept; /* [n_tensors] copies of what lives on, in a session */
    uint64_t   kept_bytes;

    exec_run     runs[ZI_EXEC_AHEAD_MAX];
    uint32_t     n_runs, next_run;
    exec_run    *last_run; /* of the step queued last */
    bool         renewed;  /* since then the program was replaced: outputs are gone */
    _Atomic bool in_step;  /* the session was told so */
    zi_tier     *away;     /* suspended: where the fixed slots are; else NULL */

    unsigned         n_threads;   /* most */
    _Atomic unsigned threads_now; /* 1 or n_threads */
    unsigned         omp_threads; /* compute stream only */
    exec_places      places;      /* compute stream only, once it runs */
    double          *node_ns;     /* [n_nodes] sums; written by the compute stream */
    uint32_t        *node_runs;

    pthread_mutex_t     mu; /* the results */
    pthread_cond_t      more;
    zi_exec_step_result results[EXEC_RESULTS];
    uint64_t            n_finished, n_taken, n_queued;
    _Atomic int         failed; /* a status < 0 */
};

/* exec_memory.c */
zico_status exec_memory_open(zi_exec *e); /* fixed slots, feeds */
void        exec_memory_close(zi_exec *e);
zico_status exec_slots_memory(zi_exec *e); /* of the program: all other slots */
void        exec_slots_release(zi_exec *e, exec_prog *p);
zico_status exec_slots_open(zi_exec *e, exec_run *r, const exec_piece *p);
void        exec_slots_close(zi_exec *e, const exec_piece *p);
void        exec_slots_close_all(zi_exec *e);
zico_status exec_fixed_open(zi_exec *e, unsigned flags); /* one lease for all of them */
void        exec_fixed_close(zi_exec *e);
uint64_t    exec_paged(uint64_t bytes); /* a fixed slot in its lease and in its file */
zico_status exec_get_away(zi_exec *e, zi_tensor_id t, void *ret_plain);
char       *exec_at(const exec_run *r, exec_ref ref);

/* exec_prog.c */
/* The plan (NULL: keep), or what becomes of it on demand within opt.budget_bytes; ready. */
zico_status exec_prog_make(zi_exec *e, const zi_plan *plan, zi_graph_diag *diag);
/* Ready what is in e->prog.plan, with its placement. */
zico_status exec_prog_open(zi_exec *e, zi_graph_diag *diag);
void        exec_prog_close(zi_exec *e, exec_prog *p);

/* exec_compile.c */
zico_status exec_compile(zi_exec *e, zi_graph_diag *diag);
void        exec_tier_place(zi_exec *e, zi_tensor_id t);
/* Where roots that are not fixed are when the first `n_acts` acts are over, and which of them
 * the tier has. */
void exec_replay(const zi_exec *e, uint32_t n_acts, exec_ref *ret_now, bool *ret_saved);

/* exec.c */
zico_status exec_issue(zi_exec *e, exec_run *r);

/* exec_rescue.c */
zico_status exec_rescue(zi_exec *e, exec_run *r, const exec_piece *at);

/* exec_places.c */
void exec_places_open(zi_exec *e);
void exec_places_keep(zi_exec *e, unsigned n_threads); /* before a kernel */

/* exec_run.c */
zi_work_fn exec_run_piece, exec_run_copy, exec_tell_end;
void       exec_fail(zi_exec *e, zico_status st);
void       exec_give_up(exec_run *r, zico_status st);

#endif /* ZI_EXEC_PRIVATE_H */
