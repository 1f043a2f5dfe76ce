/* wire/reason.h -- why somebody waits; one list for broker, jobs and people. */
#ifndef ZI_WIRE_REASON_H
#define ZI_WIRE_REASON_H

/* clang-format off */
#define ZI_REASON_MAP(X) \
    X(NONE,      none,      0, "not waiting") \
    X(MEMORY,    memory,    1, "others hold the memory it asks for") \
    X(UNSAFE,    unsafe,    2, "granting it could leave some job unable to finish its step") \
    X(QUEUE,     queue,     3, "an older request comes first") \
    X(LIMIT,     limit,     4, "its own maximum is reached") \
    X(TIDE,      tide,      5, "its step would meet the others' high tide") \
    X(TURN,      turn,      6, "another job has its turn") \
    X(LEARNING,  learning,  7, "a new job's first step is being measured alone") \
    X(ADMISSION, admission, 8, "its peak does not fit beside those already admitted") \
    X(PAUSED,    paused,    9, "paused on request") \
    X(SUSPENDED, suspended, 10, "suspended, its memory is out") \
    X(REJOIN,    rejoin,    11, "the broker was restarted and waits for all jobs to report") \
    X(HANG,      hang,      12, "a job that holds what it needs does not move") \
    X(FAIRNESS,  fairness,  13, "others would fall behind their share")
/* clang-format on */

typedef enum zi_reason {
#define X(name, lower, value, text) ZI_REASON_##name = (value),
    ZI_REASON_MAP(X)
#undef X
} zi_reason;

#define ZI_REASON_MAX 13

const char *zi_reason_text(zi_reason r); /* never NULL */
const char *zi_reason_name(zi_reason r); /* "memory"; never NULL */

#endif /* ZI_WIRE_REASON_H */
