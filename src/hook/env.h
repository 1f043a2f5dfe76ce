/* hook/env.h -- what `zico run` tells the preload library, and how it is read.
 *
 * The environment is only a way to hand options on; who a job is and what it holds is
 * between the session and the broker.  Read once, when the library is loaded, by
 * secure_getenv: in a setuid program nothing is found and the library stays out.
 */
#ifndef ZI_HOOK_ENV_H
#define ZI_HOOK_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "wire/wire.h"
#include "zico/status.h"

/* clang-format off */
#define ZI_ENV_MAP(X)                                                                       \
    X(MODE,     "ZICO_HOOK",      "join, observe or off; not set: off")                     \
    X(MIN,      "ZICO_HOOK_MIN",  "blocks of this size and more are ours: 128K")            \
    X(SOCKET,   "ZICO_SOCKET",    "the broker's socket")                                    \
    X(LOCAL,    "ZICO_LOCAL",     "no broker: a pool of this size in the process itself")   \
    X(NAME,     "ZICO_JOB_NAME",  "shown in zico status")                                   \
    X(SHAPE,    "ZICO_SHAPE",     "what kind of step it runs: key of a stored tide")        \
    X(LEAST,    "ZICO_MIN",       "guaranteed bytes")                                       \
    X(MOST,     "ZICO_MAX",       "never more bytes")                                       \
    X(CLAIM,    "ZICO_CLAIM",     "most pool bytes in one step")                            \
    X(WEIGHT,   "ZICO_WEIGHT",    "share relative to others, in thousandths")               \
    X(CORES,    "ZICO_CORES",     "follow, own, or fixed:N")                                \
    X(ALL_CORES, "ZICO_ALL_CORES", "the process (or one that started it) that had every core; 0: none")  \
    X(MAX_WAIT, "ZICO_MAX_WAIT",  "longest wait before ENOMEM: 30s, 5m; not set: no end")   \
    X(STEADY,   "ZICO_STEADY",    "1: its steps repeat to the byte; share more tightly")    \
    X(SPILL,    "ZICO_SPILL",     "folder for what is moved out when others need it, or none")  \
    X(OBSERVE,  "ZICO_OBSERVE",   "folder for observe-PID files")                           \
    X(VERBOSE,  "ZICO_VERBOSE",   "level of the library's own lines on standard error; 1")
/* clang-format on */

#define X(name, variable, text)                                                          \
    static const char ZI_ENV_##name[] __attribute__((unused)) = variable;
ZI_ENV_MAP(X)
#undef X

#define ZI_HOOK_MIN_DEFAULT ((size_t)128 << 10)
#define ZI_HOOK_MIN_LEAST   ((size_t)64 << 10)

typedef enum zi_hook_mode { ZI_HOOK_OFF, ZI_HOOK_JOIN, ZI_HOOK_OBSERVE } zi_hook_mode;

typedef struct zi_hook_options {
    zi_hook_mode mode;
    size_t       min_bytes;
    uint64_t     local_bytes;
    uint64_t     least_bytes, most_bytes, claim_bytes;
    uint32_t     weight_milli;
    zi_core_mode core_mode;
    uint32_t     cores;
    uint32_t     all_cores;   /* pid of whoever had them all; 0: nobody */
    uint64_t     max_wait_ns; /* ZICO_FOREVER: no end */
    int          verbose;
    bool         steady;
    bool         no_spill; /* its memory never goes out */
    bool         weigh;    /* charge small blocks, too (weigh.h) */
    const char  *socket_path, *name, *shape, *observe_dir,
        *spill_dir; /* NULL: not given */
} zi_hook_options;

typedef const char *zi_getenv_fn(const char *name);

/* What cannot be read counts as not given, and *ret_bad names the first such variable. */
void zi_hook_options_read(zi_getenv_fn *get, zi_hook_options *ret, const char **ret_bad);

/* "follow", "own", "fixed:2".  E_FORMAT otherwise. */
zico_status
zi_hook_parse_cores(const char *text, zi_core_mode *ret_mode, uint32_t *ret_cores);
/* "500ms", "30s" or "30", "5m", "2h", "forever". */
zico_status zi_hook_parse_wait(const char *text, uint64_t *ret_ns);

#endif /* ZI_HOOK_ENV_H */
