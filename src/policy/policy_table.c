/* policy_table.c -- all policies, in the order in which help shows them. */
#include "policy/policy_common.h"

#include <string.h>

extern const zi_policy_ops zi_policy_zico, zi_policy_temporal, zi_policy_spatial,
    zi_policy_salus, zi_policy_gandiva;

static const zi_policy_ops *const TABLE[] = {
    &zi_policy_zico,  &zi_policy_temporal, &zi_policy_spatial,
    &zi_policy_salus, &zi_policy_gandiva,
};

const zi_policy_ops *
zi_policy_at(size_t i)
{
    return i < sizeof TABLE / sizeof TABLE[0] ? TABLE[i] : NULL;
}

const zi_policy_ops *
zi_policy_find(const char *name, const char **ret_arg)
{
    size_t n = strcspn(name, ":");

    if (n == strlen(zi_policy_relay.name) && !memcmp(name, zi_policy_relay.name, n)) {
        if (ret_arg) *ret_arg = name[n] == ':' ? name + n + 1 : name + n;
        return &zi_policy_relay; /* a measuring device: not in the list */
    }
    for (size_t i = 0; i < sizeof TABLE / sizeof TABLE[0]; i++) {
        if (strlen(TABLE[i]->name) != n || memcmp(TABLE[i]->name, name, n) != 0) continue;
        if (ret_arg) *ret_arg = name[n] == ':' ? name + n + 1 : name + n;
        return TABLE[i];
    }
    return NULL;
}
