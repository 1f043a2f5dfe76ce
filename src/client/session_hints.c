/* session_hints.c -- options of a session from the environment. */
#include "client/session.h"

#include <stdlib.h>
#include <string.h>
#include "base/size.h"

static void
hint_bytes(const char *name, uint64_t *bytes)
{
    const char *text = secure_getenv(name);
    uint64_t    value;
    if (text && *bytes == 0 && zi_size_parse(text, 0, &value) == ZICO_OK) *bytes = value;
}

/* "follow", "own", "fixed" (as many as the broker says once), "fixed:2". */
static void
hint_cores(zi_session_options *opt)
{
    const char *text = secure_getenv("ZICO_CORES");
    if (!text || opt->core_mode != ZI_CORES_FOLLOW) return;
    if (!strcmp(text, "own")) opt->core_mode = ZI_CORES_OWN;
    if (strncmp(text, "fixed", 5)) return;
    opt->core_mode = ZI_CORES_FIXED;
    if (text[5] == ':') opt->cores = (uint32_t)strtoul(text + 6, NULL, 10);
    if (opt->cores == 0) opt->cores = 1;
}

void
zi_session_hints(zi_session_options *opt)
{
    const char *name = secure_getenv("ZICO_JOB_NAME"),
               *weight = secure_getenv("ZICO_WEIGHT");
    if (name && *name) opt->job_name = name;
    hint_bytes("ZICO_MIN", &opt->min_bytes);
    hint_bytes("ZICO_MAX", &opt->max_bytes);
    hint_bytes("ZICO_CLAIM", &opt->claim_bytes);
    if (weight && opt->weight_milli == 0)
        opt->weight_milli = (uint32_t)strtoul(weight, NULL, 10);
    hint_cores(opt);
    const char *hold = secure_getenv("ZICO_HOLD");
    if (hold && !strcmp(hold, "step")) opt->hold_step = true;
}
