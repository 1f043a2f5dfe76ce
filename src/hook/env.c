/* env.c -- reads the options that `zico run` left in the environment. */
#include "hook/env.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "zico/client.h"

static const char *
given(zi_getenv_fn *get, const char *name)
{
    const char *text = get(name);
    return text && *text ? text : NULL;
}

static zico_status
parse_u32(const char *text, uint32_t least, uint32_t most, uint32_t *ret)
{
    char         *end;
    unsigned long v = strtoul(text, &end, 10);

    if (end == text || *end || *text == '-') return ZICO_E_FORMAT;
    if (v < least || v > most) return ZICO_E_ARG;
    *ret = (uint32_t)v;
    return ZICO_OK;
}

zico_status
zi_hook_parse_cores(const char *text, zi_core_mode *ret_mode, uint32_t *ret_cores)
{
    uint32_t n = 0;

    if (strcmp(text, "follow") == 0)
        *ret_mode = ZI_CORES_FOLLOW;
    else if (strcmp(text, "own") == 0)
        *ret_mode = ZI_CORES_OWN;
    else if (strncmp(text, "fixed:", 6) == 0) {
        zico_status st = parse_u32(text + 6, 1, 4096, &n);
        if (st < 0) return st;
        *ret_mode = ZI_CORES_FIXED;
    } else
        return ZICO_E_FORMAT;
    *ret_cores = n;
    return ZICO_OK;
}

zico_status
zi_hook_parse_wait(const char *text, uint64_t *ret_ns)
{
    static const struct {
        const char *unit;
        double      ns;
    } units[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"m", 60e9}, {"h", 3600e9}};
    char  *end;
    double v;

    if (strcmp(text, "forever") == 0) {
        *ret_ns = ZICO_FOREVER;
        return ZICO_OK;
    }
    v = strtod(text, &end);
    if (end == text || !(v >= 0)) return ZICO_E_FORMAT;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].unit) != 0) continue;
        if (v * units[i].ns > 9e18) return ZICO_E_ARG;
        *ret_ns = (uint64_t)(v * units[i].ns);
        return ZICO_OK;
    }
    return ZICO_E_FORMAT;
}

static void
read_size(zi_getenv_fn *get, const char *name, uint64_t *ret, const char **bad)
{
    const char *text = given(get, name);
    uint64_t    v;

    if (!text) return;
    if (zi_size_parse(text, 0, &v) >= 0)
        *ret = v;
    else if (!*bad)
        *bad = name;
}

static void
note(zico_status st, const char *name, const char **bad)
{
    if (st < 0 && !*bad) *bad = name;
}

static zi_hook_mode
read_mode(zi_getenv_fn *get, const char **bad)
{
    const char *text = given(get, ZI_ENV_MODE);
    if (!text || strcmp(text, "off") == 0) return ZI_HOOK_OFF;
    if (strcmp(text, "join") == 0) return ZI_HOOK_JOIN;
    if (strcmp(text, "observe") == 0) return ZI_HOOK_OBSERVE;
    *bad = ZI_ENV_MODE;
    return ZI_HOOK_OFF;
}

void
zi_hook_options_read(zi_getenv_fn *get, zi_hook_options *ret, const char **ret_bad)
{
    uint64_t    min = ZI_HOOK_MIN_DEFAULT;
    uint32_t    level = 1;
    const char *text;

    *ret_bad = NULL;
    *ret = (zi_hook_options){.max_wait_ns = ZICO_FOREVER, .weight_milli = 1000};
    ret->mode = read_mode(get, ret_bad);
    read_size(get, ZI_ENV_MIN, &min, ret_bad);
    ret->weigh = true;
    ret->min_bytes = min < ZI_HOOK_MIN_LEAST ? ZI_HOOK_MIN_LEAST : (size_t)min;
    read_size(get, ZI_ENV_LOCAL, &ret->local_bytes, ret_bad);
    read_size(get, ZI_ENV_LEAST, &ret->least_bytes, ret_bad);
    read_size(get, ZI_ENV_MOST, &ret->most_bytes, ret_bad);
    read_size(get, ZI_ENV_CLAIM, &ret->claim_bytes, ret_bad);
    if ((text = given(get, ZI_ENV_WEIGHT)))
        note(parse_u32(text, 1, 1000000, &ret->weight_milli), ZI_ENV_WEIGHT, ret_bad);
    if ((text = given(get, ZI_ENV_CORES)))
        note(zi_hook_parse_cores(text, &ret->core_mode, &ret->cores), ZI_ENV_CORES,
             ret_bad);
    if ((text = given(get, ZI_ENV_MAX_WAIT)))
        note(zi_hook_parse_wait(text, &ret->max_wait_ns), ZI_ENV_MAX_WAIT, ret_bad);
    if ((text = given(get, ZI_ENV_ALL_CORES)))
        note(parse_u32(text, 0, INT32_MAX, &ret->all_cores), ZI_ENV_ALL_CORES, ret_bad);
    if ((text = given(get, ZI_ENV_STEADY))) ret->steady = strcmp(text, "0") != 0;
    if ((text = given(get, ZI_ENV_VERBOSE)))
        note(parse_u32(text, 0, 5, &level), ZI_ENV_VERBOSE, ret_bad);
    ret->verbose = (int)level;
    ret->socket_path = given(get, ZI_ENV_SOCKET);
    ret->name = given(get, ZI_ENV_NAME);
    ret->shape = given(get, ZI_ENV_SHAPE);
    ret->observe_dir = given(get, ZI_ENV_OBSERVE);
    ret->spill_dir = given(get, ZI_ENV_SPILL);
    if (ret->spill_dir && strcmp(ret->spill_dir, "none") == 0) {
        ret->spill_dir = NULL;
        ret->no_spill = true;
    }
}
