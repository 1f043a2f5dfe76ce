/* doctor_cmd.c -- zico doctor: what this machine offers, and what to change.
 *
 * Each check is a function that adds one finding: what there is, whether zico can work with
 * it, and, if something is to be done, what.
 */
#include "cli/commands.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/json.h"
#include "base/size.h"
#include "cli/args.h"
#include "cli/watch.h"
#include "device/device.h"
#include "os/rundir.h"

#ifndef MADV_POPULATE_WRITE
#    define MADV_POPULATE_WRITE 23
#endif
#ifndef F_SEAL_FUTURE_WRITE
#    define F_SEAL_FUTURE_WRITE 0x0010
#endif

typedef enum verdict { GOOD, NOTE, BAD } verdict;

typedef struct finding {
    const char *name;
    verdict     verdict;
    char        text[200];
    char        advice[200]; /* "": none */
} finding;

#define FINDINGS_MAX 40

typedef struct doctor {
    finding at[FINDINGS_MAX];
    size_t  n;
} doctor;

__attribute__((format(printf, 4, 5))) static finding *
add(doctor *d, const char *name, verdict v, const char *fmt, ...)
{
    finding *f = &d->at[d->n < FINDINGS_MAX ? d->n++ : FINDINGS_MAX - 1];
    va_list  ap;

    *f = (finding){.name = name, .verdict = v};
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, ap);
    va_end(ap);
    return f;
}

__attribute__((format(printf, 2, 3))) static void
advise(finding *f, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(f->advice, sizeof f->advice, fmt, ap);
    va_end(ap);
}

/* The first line of a small file without its newline; "" if there is none. */
static const char *
read_line(const char *path, char *line, size_t cap)
{
    FILE *f = fopen(path, "re");

    line[0] = '\0';
    if (f) {
        if (!fgets(line, (int)cap, f)) line[0] = '\0';
        fclose(f);
    }
    line[strcspn(line, "\n")] = '\0';
    return line;
}

/* -- cores and memory ------------------------------------------------------------------- */

static void
check_cores(doctor *d)
{
    cpu_set_t set;
    long      online = sysconf(_SC_NPROCESSORS_ONLN);
    int       ours =
        sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)online;
    finding *f = add(d, "cores", GOOD, "%d of %ld may be used", ours, online);

    if (ours < 2) {
        f->verdict = NOTE;
        advise(f, "with one core jobs can share memory but not compute at the same time");
    }
}

static void
check_memory(doctor *d)
{
    zi_device *dev;
    uint64_t   total = 0, spare = 0;
    char       a[ZI_SIZE_TEXT], b[ZI_SIZE_TEXT], c[ZI_SIZE_TEXT];

    if (zi_device_host.open(zi_os_real(), 0, &dev) < 0) {
        add(d, "memory", BAD, "the host device cannot be opened");
        return;
    }
    zico_status st = zi_device_host.memory(dev, &total, &spare);
    zi_device_host.close(dev);
    if (st < 0)
        add(d, "memory", BAD, "cannot be read: %s", zico_status_text(st));
    else
        add(d, "memory", GOOD, "%s, of which %s are free; the default budget is %s",
            zi_size_format(total, a), zi_size_format(spare, b),
            zi_size_format(spare / 5 * 4, c));
}

/* The limit of the control group that we are in (version 2, then 1). */
static void
check_cgroup(doctor *d)
{
    char  line[512], path[600], value[64], size[ZI_SIZE_TEXT];
    FILE *f = fopen("/proc/self/cgroup", "re");

    value[0] = '\0';
    while (f && fgets(line, sizeof line, f)) {
        char *group = strrchr(line, ':');
        if (!group) continue;
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::", 3) == 0)
            snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group + 1);
        else if (strstr(line, ":memory:"))
            snprintf(path, sizeof path, "/sys/fs/cgroup/memory%s/memory.limit_in_bytes",
                     group + 1);
        else
            continue;
        read_line(path, value, sizeof value);
        if (*value) break;
    }
    if (f) fclose(f);
    uint64_t bytes = strtoull(value, NULL, 10);
    if (!*value || strcmp(value, "max") == 0 || bytes > (1ull << 60)) {
        add(d, "cgroup", GOOD, "no memory limit from a control group");
        return;
    }
    finding *g =
        add(d, "cgroup", NOTE, "a control group allows %s", zi_size_format(bytes, size));
    advise(
        g,
        "keep the budget below it: pool pages count there, and the kernel kills whoever "
        "exceeds it");
}

static void
check_overcommit(doctor *d)
{
    char line[64];
    int  mode = atoi(read_line("/proc/sys/vm/overcommit_memory", line, sizeof line));

    if (mode != 2) {
        add(d, "overcommit", GOOD, "vm.overcommit_memory = %d", mode);
        return;
    }
    finding *f = add(d, "overcommit", NOTE, "vm.overcommit_memory = 2 (strict)");
    advise(f, "address space for the pool may be refused; sysctl vm.overcommit_memory=0");
}

static void
check_huge(doctor *d)
{
    char  line[128];
    char *on = strchr((char *)(uintptr_t)
                          read_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
                                    line, sizeof line),
                      '[');

    if (!on) {
        add(d, "huge pages", NOTE,
            "the kernel says nothing about huge pages for shared memory");
        return;
    }
    bool     never = strncmp(on, "[never]", 7) == 0 || strncmp(on, "[deny]", 6) == 0;
    finding *f = add(d, "huge pages", never ? NOTE : GOOD, "for shared memory: %.*s",
                     (int)strcspn(on, "]") - 1, on + 1);
    if (never)
        advise(f, "first touch of the pool is faster with: echo advise > "
                  "/sys/kernel/mm/transparent_hugepage/shmem_enabled (as root)");
}

static void
check_limits(doctor *d)
{
    struct rlimit files = {0}, space = {0};

    getrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_AS, &space);
    bool     tight = files.rlim_cur < 512;
    finding *f = add(d, "open files", tight ? NOTE : GOOD,
                     "at most %" PRIu64 " a process", (uint64_t)files.rlim_cur);
    if (tight) advise(f, "a broker needs two for each job; ulimit -n 4096");
    if (space.rlim_cur != RLIM_INFINITY) {
        f = add(d, "address space", NOTE, "limited to %" PRIu64 " bytes",
                (uint64_t)space.rlim_cur);
        advise(f, "every job maps the whole pool; ulimit -v unlimited");
    }
}

/* -- kernel services --------------------------------------------------------------------- */

static void
check_memfd(doctor *d)
{
    const zi_os *os = zi_os_real();
    long         fd = os->memfd(os, "zico-doctor", MFD_ALLOW_SEALING);
    long         rc = fd < 0 ? fd
                             : os->seal_add(os, (int)fd,
                                            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);

    if (fd >= 0) os->close(os, (int)fd);
    if (rc >= 0) {
        add(d, "memfd", GOOD, "memory files can be made and sealed");
        return;
    }
    finding *f = add(d, "memfd", BAD, "%s", strerror((int)-rc));
    advise(f, "the pool is a sealed memory file; needs Linux 5.1 or later");
}

static void
check_pidfd(doctor *d)
{
    const zi_os *os = zi_os_real();
    long         fd = os->pidfd(os, getpid());

    if (fd >= 0) {
        os->close(os, (int)fd);
        add(d, "pidfd", GOOD, "a broker can see processes die");
        return;
    }
    finding *f = add(d, "pidfd", BAD, "%s", strerror((int)-fd));
    advise(f, "needs Linux 5.3 or later, and no sandbox that forbids pidfd_open");
}

static void
check_populate(doctor *d)
{
    const zi_os *os = zi_os_real();
    void        *p;
    long rc = os->map(os, NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0, &p);

    if (rc < 0) return;
    rc = os->advise(os, p, 4096, MADV_POPULATE_WRITE);
    os->unmap(os, p, 4096);
    finding *f =
        add(d, "populate", rc < 0 ? NOTE : GOOD,
            rc < 0 ? "MADV_POPULATE_WRITE is missing" : "MADV_POPULATE_WRITE works");
    if (rc < 0) advise(f, "pages come with the first touch instead; Linux 5.14 has it");
}

/* -- what else is installed ----------------------------------------------------------------- */

static void
check_cuda(doctor *d)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int   n = 0;

    if (!lib) {
        add(d, "cuda", GOOD,
            "none (libcuda.so.1 is not there); the host device works without");
        return;
    }
    int (*init)(unsigned) = (int (*)(unsigned))(uintptr_t)dlsym(lib, "cuInit");
    int (*count)(int *) = (int (*)(int *))(uintptr_t)dlsym(lib, "cuDeviceGetCount");
    int rc = init && count ? init(0) : -1;
    if (rc == 0) rc = count(&n);
    if (rc == 0)
        add(d, "cuda", GOOD, "%d devices", n);
    else
        advise(add(d, "cuda", NOTE, "the driver is there but answers with error %d", rc),
               "nvidia-smi tells more");
    dlclose(lib);
}

static void
check_onednn(doctor *d)
{
    static const char *const name[] = {"libdnnl.so.2", "libdnnl.so.3", "libdnnl.so"};

    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        void *lib = dlopen(name[i], RTLD_NOW | RTLD_LOCAL);
        if (!lib) continue;
        add(d, "oneDNN", GOOD, "%s", name[i]);
        dlclose(lib);
        return;
    }
    advise(add(d, "oneDNN", NOTE, "not found"),
           "zico train needs it: apt install libdnnl-dev");
}

static void
check_torch(doctor *d)
{
    char  line[64] = "";
    FILE *p =
        popen("python3 -c 'import importlib.metadata as m; print(m.version(\"torch\"))' "
              "2>/dev/null",
              "re");

    if (p) {
        if (!fgets(line, sizeof line, p)) line[0] = '\0';
        pclose(p);
    }
    line[strcspn(line, "\n")] = '\0';
    if (*line)
        add(d, "torch", GOOD, "PyTorch %s in the python3 of the PATH", line);
    else
        advise(add(d, "torch", NOTE, "not found by the python3 of the PATH"),
               "only needed to run PyTorch scripts: apt install python3-torch");
}

/* -- brokers -------------------------------------------------------------------------------- */

static void
check_broker(doctor *d, const char *path)
{
    zi_watch   *w;
    zico_status st = zi_watch_open(zi_os_real(), path, false, &w);
    char        budget[ZI_SIZE_TEXT];

    if (st >= 0) {
        st = zi_watch_next(w, 2000000000);
        const zi_picture *p = zi_watch_picture(w);
        if (st >= 0)
            add(d, "broker", p->device.n_over ? BAD : GOOD,
                "pid %u serves %s with %s to %zu jobs at %s", p->device.broker_pid,
                p->device.device, zi_size_format(p->device.budget_bytes, budget),
                p->n_jobs, path);
        zi_watch_close(w);
    }
    if (st < 0)
        advise(add(d, "broker", NOTE, "a socket that nobody answers: %s", path),
               "the next `zico serve` cleans it up");
}

static void
check_run_directory(doctor *d)
{
    char        folder[ZI_RUNDIR_PATH_MAX];
    zico_status st = zi_rundir_folder(zi_os_real(), false, folder, sizeof folder);

    if (st == ZICO_E_DENIED) {
        advise(add(d, "run directory", BAD, "%s is not ours alone", folder),
               "it must be a folder with our owner and mode 0700; remove it if it is not "
               "ours");
        return;
    }
    if (st == ZICO_E_NOTFOUND) {
        add(d, "run directory", GOOD, "%s (not yet made)", folder);
        return;
    }
    if (st < 0) {
        add(d, "run directory", BAD, "%s", zico_status_text(st));
        return;
    }
    add(d, "run directory", GOOD, "%s", folder);
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char        path[ZI_RUNDIR_PATH_MAX + 300];
        const char *end = strrchr(e->d_name, '.');
        if (!end || strcmp(end, ".sock") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        check_broker(d, path);
    }
    if (dir) closedir(dir);
    const char *env = getenv("ZICO_SOCKET");
    if (env && *env) check_broker(d, env);
}

/* -- the report ------------------------------------------------------------------------------ */

static void
print_text(const doctor *d)
{
    static const char *const mark[] = {"ok  ", "note", "BAD "};

    for (size_t i = 0; i < d->n; i++) {
        const finding *f = &d->at[i];
        printf("%s  %-13s  %s\n", mark[f->verdict], f->name, f->text);
        if (f->advice[0]) printf("%21s-> %s\n", "", f->advice);
    }
}

static zico_status
print_json(const doctor *d)
{
    static const char *const mark[] = {"ok", "note", "bad"};
    zi_str                   out = {0};
    zi_json                  j = zi_json_into(&out);

    zi_json_array(&j);
    for (size_t i = 0; i < d->n; i++) {
        zi_json_object(&j);
        zi_json_key(&j, "name"), zi_json_str(&j, d->at[i].name);
        zi_json_key(&j, "verdict"), zi_json_str(&j, mark[d->at[i].verdict]);
        zi_json_key(&j, "text"), zi_json_str(&j, d->at[i].text);
        zi_json_key(&j, "advice");
        zi_json_str(&j, d->at[i].advice[0] ? d->at[i].advice : NULL);
        zi_json_end(&j);
    }
    zi_json_end(&j);
    zico_status st = zi_json_status(&j);
    if (st >= 0) printf("%s\n", zi_str_get(&out));
    zi_str_free(&out);
    return st;
}

int
zi_cmd_doctor(int argc, char **argv)
{
    static void (*const check[])(doctor *) = {
        check_cores,  check_memory, check_cgroup,        check_overcommit, check_huge,
        check_limits, check_memfd,  check_pidfd,         check_populate,   check_cuda,
        check_onednn, check_torch,  check_run_directory,
    };
    bool          json = false, failed = false;
    const zi_arg  arg[] = {{"json", ZI_ARG_FLAG, &json, NULL, "for programs"}};
    const zi_args args = {
        .usage = "doctor [OPTION...]",
        .about = "What this machine offers, and what to change.  Exits with 1 "
                 "if zico cannot work here.",
        .arg = arg,
        .n_args = 1};
    static doctor d;

    zico_status st = zi_args_parse(&args, argc, argv, NULL, NULL);
    if (st != ZICO_OK) return zi_args_exit(st);
    d.n = 0;
    for (size_t i = 0; i < sizeof check / sizeof check[0]; i++) check[i](&d);
    for (size_t i = 0; i < d.n; i++) failed |= d.at[i].verdict == BAD;
    if (json)
        failed |= print_json(&d) < 0;
    else
        print_text(&d);
    return failed ? ZI_EXIT_FAILED : ZI_EXIT_OK;
}
