/* zoo.c -- the list of networks, and how "name:key=value,..." is read. */
#include "graph/zoo/zoo.h"
#include "graph/rewrite.h"
#include "graph/zoo/zoo_nets.h"
#include "base/try.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const zi_zoo_net *const nets[] = {
    &zi_zoo_resnet20, &zi_zoo_resnet18,     &zi_zoo_resnet34,    &zi_zoo_resnet50,
    &zi_zoo_vgg16,    &zi_zoo_mobilenet_v2, &zi_zoo_densenet121, &zi_zoo_unet,
    &zi_zoo_lstm_lm,  &zi_zoo_gpt,          &zi_zoo_mlp,
};
#define N_NETS (sizeof nets / sizeof nets[0])

size_t
zi_zoo_count(void)
{
    return N_NETS;
}

const zi_zoo_net *
zi_zoo_at(size_t i)
{
    return i < N_NETS ? nets[i] : NULL;
}

static const zi_zoo_net *
find_n(const char *name, size_t n)
{
    for (size_t i = 0; i < N_NETS; i++)
        if (strlen(nets[i]->name) == n && strncmp(nets[i]->name, name, n) == 0)
            return nets[i];
    return NULL;
}

const zi_zoo_net *
zi_zoo_find(const char *name)
{
    return find_n(name, strlen(name));
}

bool
zi_zoo_knows(const char *spec)
{
    return find_n(spec, strcspn(spec, ":")) != NULL;
}

/* ---- errors that say what is allowed ------------------------------------------------- */

static zico_status
unknown_net(zi_graph_diag *diag, const char *name, size_t n)
{
    char   list[256];
    size_t at = 0;
    for (size_t i = 0; i < N_NETS && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "",
                               nets[i]->name);
    return zi_graph_complain(diag, ZICO_E_NOTFOUND, ZI_ID_NONE,
                             "no network '%.*s'; there are: %s", (int)(n < 40 ? n : 40),
                             name, list);
}

static zico_status
unknown_key(zi_graph_diag *diag, const zi_zoo_net *net, const char *key, size_t n)
{
    char   list[256] = "";
    size_t at = 0;
    for (const zi_zoo_param *p = net->params; p->name && at < sizeof list; p++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s",
                               p == net->params ? "" : ", ", p->name);
    return zi_graph_complain(diag, ZICO_E_ARG, ZI_ID_NONE,
                             "%s has no parameter '%.*s'; there are: %s", net->name,
                             (int)(n < 40 ? n : 40), key, list);
}

static zico_status
bad_value(zi_graph_diag *diag, const zi_zoo_net *net, const zi_zoo_param *p,
          const char *value, size_t n)
{
    return zi_graph_complain(diag, ZICO_E_ARG, ZI_ID_NONE,
                             "%s: %s='%.*s' should be a%s number from %.15g to %.15g",
                             net->name, p->name, (int)(n < 40 ? n : 40), value,
                             p->real ? "" : " whole", p->lo, p->hi);
}

/* ---- reading ------------------------------------------------------------------------- */

/* One "key=value", n characters long. */
static zico_status
read_pair(const zi_zoo_net *net, const char *s, size_t n, zi_graph_diag *diag,
          zi_zoo_args *args)
{
    size_t key = 0;
    while (key < n && s[key] != '=') key++;
    const zi_zoo_param *p = net->params;
    while (p->name && (strlen(p->name) != key || strncmp(p->name, s, key) != 0)) p++;
    if (!p->name) return unknown_key(diag, net, s, key);

    const char *value = key < n ? s + key + 1 : "";
    size_t      len = key < n ? n - key - 1 : 0;
    char        buf[32], *end;
    if (len == 0 || len >= sizeof buf) return bad_value(diag, net, p, value, len);
    memcpy(buf, value, len);
    buf[len] = 0;
    double v = strtod(buf, &end);
    if (*end || !(v >= p->lo && v <= p->hi) || (!p->real && v != floor(v)))
        return bad_value(diag, net, p, value, len);
    args->v[p - net->params] = v;
    return ZICO_OK;
}

static zico_status
read_spec(const char *spec, zi_graph_diag *diag, const zi_zoo_net **ret_net,
          zi_zoo_args *args)
{
    size_t n = strcspn(spec, ":");
    *ret_net = find_n(spec, n);
    if (!*ret_net) return unknown_net(diag, spec, n);
    const zi_zoo_param *p = (*ret_net)->params;
    for (size_t i = 0; p[i].name; i++) args->v[i] = p[i].def;
    for (const char *s = spec + n; *s; s += n) {
        s++; /* the ':' or ',' */
        n = strcspn(s, ",");
        ZI_TRY(read_pair(*ret_net, s, n, diag, args));
    }
    return ZICO_OK;
}

zico_status
zi_zoo_build(const char *spec, int64_t batch, bool training, uint64_t seed,
             zi_graph_diag *diag, zi_graph **ret_graph)
{
    const zi_zoo_net *net = NULL;
    zi_zoo_args       args = {.batch = batch};

    ZI_TRY(read_spec(spec, diag, &net, &args));
    if (batch < 1 || batch > 1 << 24)
        return zi_graph_complain(diag, ZICO_E_ARG, ZI_ID_NONE,
                                 "a batch of %" PRId64 " should be from 1 to %d", batch,
                                 1 << 24);
    zi_gb *b = zi_gb_new(net->name, training, seed);
    if (!b) return ZICO_E_NOMEM;
    net->build(b, &args);
    return zi_gb_finish(b, diag, ret_graph);
}
