/* places.c -- keeps the threads of this program to some of the cores. */
#include "hook/places.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the kernel writes into a buffer for getdents64. */
typedef struct entry {
    uint64_t inode;
    int64_t  next;
    uint16_t len;
    uint8_t  type;
    char     name[];
} entry;

static cpu_set_t
cores(unsigned first, unsigned n)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (unsigned i = 0; i < n; i++) CPU_SET(first + i, &set);
    return set;
}

/* The cores of a thread while the program is kept to n from `first` on: of the team's k-th, one. */
static cpu_set_t
place_of(const zi_places *p, int tid, unsigned first, unsigned n)
{
    for (unsigned k = 0; k < p->n_team && n > 0; k++)
        if (p->team[k] == tid) return cores(first + k % n, 1);
    return n > 0 ? cores(first, n) : cores(0, p->n_all);
}

/* Is it where we put it, or where it was from the beginning? */
static bool
is_ours(const zi_places *p, int tid, const cpu_set_t *at)
{
    cpu_set_t set = cores(0, p->n_all);

    if (CPU_EQUAL(at, &set)) return true;
    for (unsigned i = 0; i < 2; i++) {
        set = place_of(p, tid, p->first[i], p->n[i]);
        if (CPU_EQUAL(at, &set)) return true;
        set = cores(p->first[i], p->n[i]); /* it began meanwhile */
        if (CPU_EQUAL(at, &set)) return true;
    }
    return false;
}

static void
put_thread(const zi_places *p, int tid, unsigned first, unsigned n)
{
    cpu_set_t at, to = place_of(p, tid, first, n);

    if (sched_getaffinity(tid, sizeof at, &at) != 0 || CPU_EQUAL(&at, &to)) return;
    if (is_ours(p, tid, &at)) (void)sched_setaffinity(tid, sizeof to, &to);
}

/* No allocation: blocks are waited for with locks of the program held. */
static void
put_all(const zi_places *p, unsigned first, unsigned n)
{
    _Alignas(entry) char buf[2048];
    int                  fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long                 len;

    if (fd < 0) return;
    while ((len = syscall(SYS_getdents64, fd, buf, sizeof buf)) > 0)
        for (long at = 0; at < len;) {
            const entry *e = (const entry *)(buf + at);
            at += e->len;
            if (e->name[0] != '.') put_thread(p, atoi(e->name), first, n);
        }
    close(fd);
}

/* With mu held. */
static void
move(zi_places *p, unsigned first, unsigned n)
{
    if (first >= p->n_all || n > p->n_all - first) n = 0;
    if (n == p->n[0] && (n == 0 || first == p->first[0])) return;
    put_all(p, first, n);
    p->first[1] = p->first[0];
    p->n[1] = p->n[0];
    p->first[0] = first;
    p->n[0] = n;
}

/* Started from within a step of a program that is kept to a part of them? */
static bool
is_inherited(const cpu_set_t *mine)
{
    cpu_set_t parents;
    return sched_getaffinity(getppid(), sizeof parents, &parents) == 0 &&
           CPU_EQUAL(mine, &parents);
}

void
zi_places_open(zi_places *p, bool started)
{
    long      n = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t mine, all;

    *p = (zi_places){.mu = PTHREAD_MUTEX_INITIALIZER};
    if (n < 2 || n > CPU_SETSIZE) return;
    all = cores(0, (unsigned)n);
    if (sched_getaffinity(0, sizeof mine, &mine) != 0) return;
    if (!CPU_EQUAL(&mine, &all) &&
        !(started && is_inherited(&mine) && sched_setaffinity(0, sizeof all, &all) == 0))
        return;
    p->n_all = (unsigned)n;
    p->on = true;
}

void
zi_places_begin(zi_places *p, unsigned first, unsigned n)
{
    if (!p->on) return;
    pthread_mutex_lock(&p->mu);
    p->in_step = true;
    move(p, first, n);
    pthread_mutex_unlock(&p->mu);
}

void
zi_places_keep(zi_places *p, unsigned first, unsigned n)
{
    if (!p->on) return;
    pthread_mutex_lock(&p->mu);
    if (p->in_step) move(p, first, n);
    pthread_mutex_unlock(&p->mu);
}

void
zi_places_end(zi_places *p)
{
    if (!p->on) return;
    pthread_mutex_lock(&p->mu);
    p->in_step = false;
    move(p, 0, 0);
    pthread_mutex_unlock(&p->mu);
}

void
zi_places_team(zi_places *p, const int *tid, unsigned n)
{
    if (!p->on) return;
    if (n > ZI_PLACES_TEAM_MAX) n = ZI_PLACES_TEAM_MAX;
    pthread_mutex_lock(&p->mu);
    memcpy(p->team, tid, n * sizeof *tid);
    p->n_team = n;
    pthread_mutex_unlock(&p->mu);
}

void
zi_places_child(zi_places *p)
{
    if (!p->on) return;
    cpu_set_t all = cores(0, p->n_all);
    (void)sched_setaffinity(0, sizeof all, &all);
    p->on = false;
}
