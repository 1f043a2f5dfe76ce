/* threads.c -- finds the libraries that compute in parallel, and tells them how many threads. */
#include "hook/threads.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATH_CAP 512u

static const char *const prefixes[] = {"libgomp", "libiomp5", "libomp", "libopenblas",
                                       "libmkl_rt"};
static const char *const setters[] = {"omp_set_num_threads", "openblas_set_num_threads",
                                      "MKL_Set_Num_Threads"};

typedef struct found {
    unsigned n;
    char     path[ZI_THREADS_MAX][PATH_CAP];
} found;

static bool
is_wanted(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (unsigned i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
    return false;
}

/* Only notes the names: the loader may not be called from here. */
static int
note_library(struct dl_phdr_info *info, size_t size, void *user)
{
    found *f = user;

    (void)size;
    if (!info->dlpi_name || !is_wanted(info->dlpi_name)) return 0;
    if (f->n == ZI_THREADS_MAX || strlen(info->dlpi_name) >= PATH_CAP) return 0;
    strcpy(f->path[f->n++], info->dlpi_name);
    return 0;
}

/* ISO C knows no way from void * to a function; POSIX promises that the bytes are the same. */
static bool
look_up(void *library, const char *name, void *ret_function)
{
    void *p = dlsym(library, name);
    if (p) memcpy(ret_function, &p, sizeof p);
    return p != NULL;
}

/* All of it, or none. */
static void
add_team(zi_threads *t, void *library)
{
    if (look_up(library, "omp_in_parallel", &t->inside) &&
        look_up(library, "omp_get_thread_num", &t->number))
        (void)look_up(library, "GOMP_parallel", &t->parallel);
}

static void
add_library(zi_threads *t, void *library)
{
    for (unsigned i = 0; i < sizeof setters / sizeof *setters; i++) {
        void (*set)(int);
        if (t->n_set == ZI_THREADS_MAX || !look_up(library, setters[i], &set)) continue;
        bool known = false;
        for (unsigned k = 0; k < t->n_set; k++) known |= t->set[k] == set;
        if (!known) t->set[t->n_set++] = set;
    }
    if (!t->count && look_up(library, "omp_get_max_threads", &t->count))
        add_team(t, library);
}

void
zi_threads_find(zi_threads *t)
{
    found f = {.n = 0};

    dl_iterate_phdr(note_library, &f);
    for (unsigned i = 0; i < f.n; i++) {
        void *library = dlopen(f.path[i], RTLD_LAZY | RTLD_NOLOAD);
        if (!library) continue;
        add_library(t, library);
        dlclose(library); /* whoever loaded it keeps it */
    }
}

void
zi_threads_hear(zi_threads *t, int n, uint64_t now_ns)
{
    if (n <= 0 || n == t->heard) return;
    if (t->heard)
        t->core_ns += t->heard * (double)(now_ns - t->heard_ns);
    else
        t->begin_ns = now_ns;
    t->heard = n;
    t->heard_ns = now_ns;
}

/* Of the step that ends now, rounded up from three eighths on. */
static int
mean_cores(const zi_threads *t, uint64_t now_ns)
{
    if (now_ns <= t->begin_ns) return t->heard;
    double sum = t->core_ns + t->heard * (double)(now_ns - t->heard_ns);
    return (int)(sum / (double)(now_ns - t->begin_ns) + 0.625);
}

bool
zi_threads_use(zi_threads *t, uint64_t now_ns)
{
    const int n = t->heard ? mean_cores(t, now_ns) : 0;

    t->heard = 0;
    t->core_ns = 0;
    if (n == 0 || n == t->told || t->own || t->n_set == 0) return false;
    if (t->inside && t->inside()) return false;
    if (t->told && t->count && t->count() != t->told) {
        t->own = true;
        return false;
    }
    for (unsigned i = 0; i < t->n_set; i++) t->set[i](n);
    t->told = n;
    return true;
}

/* -- the team ------------------------------------------------------------------------------ */

typedef struct roll {
    const zi_threads *threads;
    int              *tid;
    unsigned          cap;
} roll;

static void
answer_roll(void *arg)
{
    const roll *r = arg;
    unsigned    k = (unsigned)r->threads->number();

    if (k < r->cap) r->tid[k] = (int)syscall(SYS_gettid);
}

unsigned
zi_threads_team(const zi_threads *t, int *ret_tid, unsigned cap)
{
    if (!t->parallel || !t->number || !t->count || t->inside()) return 0;
    unsigned n = (unsigned)t->count();
    if (n > cap) return 0;
    for (unsigned k = 0; k < n; k++) ret_tid[k] = 0;
    t->parallel(answer_roll, &(roll){t, ret_tid, cap}, n, 0);
    return n;
}
