/* hook_cost.c -- what the preload library adds to a call below its threshold.
 *
 *   hook_cost [rounds]      runs itself with and without libzico-hook.so, in turn
 *
 * Prints nanoseconds per call (a pair is two) as medians, and the difference.
 */
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define N_CALLS 4000000
#define N_KINDS 4
#define N_MAX   64

static const char *const kind[N_KINDS] = {"malloc+free 64 B", "posix_memalign+free 4 KiB",
                                          "calloc+free 256 B", "malloc_usable_size"};
static const int         calls[N_KINDS] = {2, 2, 2, 1};

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double
measure(int what)
{
    void *volatile keep;
    void  *p;
    size_t sum = 0;
    void  *fixed = malloc(100);
    double t0 = now();

    for (int i = 0; i < N_CALLS; i++) {
        switch (what) {
        case 0:
            keep = malloc(64), free(keep);
            break;
        case 1:
            if (posix_memalign(&p, 64, 4096) == 0) keep = p, free(keep);
            break;
        case 2:
            keep = calloc(4, 64), free(keep);
            break;
        default:
            sum += malloc_usable_size(fixed);
        }
    }
    double ns = (now() - t0) / N_CALLS / calls[what];
    free(fixed);
    return sum == 1 ? 0 : ns;
}

static int
child(void)
{
    double best[N_KINDS];
    for (int k = 0; k < N_KINDS; k++) {
        best[k] = 1e9;
        for (int i = 0; i < 3; i++) {
            double ns = measure(k);
            if (ns < best[k]) best[k] = ns;
        }
    }
    return fwrite(best, sizeof best, 1, stdout) == 1 ? 0 : 1;
}

static int
run(const char *self, const char *library, double ret[N_KINDS])
{
    int ends[2], status;

    if (pipe(ends) != 0) return -1;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        if (library) {
            setenv("LD_PRELOAD", library, 1);
            setenv("ZICO_HOOK", "join", 1);
        }
        execl(self, self, "--child", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], ret, sizeof(double) * N_KINDS);
    close(ends[0]);
    waitpid(pid, &status, 0);
    return n == (ssize_t)(sizeof(double) * N_KINDS) && status == 0 ? 0 : -1;
}

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int
main(int argc, char **argv)
{
    static double plain[N_KINDS][N_MAX], hooked[N_KINDS][N_MAX];
    char          self[PATH_MAX], library[PATH_MAX + 32];
    double        v[N_KINDS];

    if (argc > 1 && strcmp(argv[1], "--child") == 0) return child();
    int     rounds = argc > 1 ? atoi(argv[1]) : 7;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (rounds < 1 || rounds > N_MAX || n <= 0) return 2;
    self[n] = '\0';
    snprintf(library, sizeof library, "%s", self);
    *strrchr(library, '/') = '\0';
    strcat(library, "/../libzico-hook.so");

    for (int r = 0; r < rounds; r++)
        for (int side = 0; side < 2; side++) {
            if (run(self, side ? library : NULL, v) != 0) {
                fprintf(stderr, "hook_cost: cannot run under %s\n", library);
                return 1;
            }
            for (int k = 0; k < N_KINDS; k++) (side ? hooked : plain)[k][r] = v[k];
        }
    printf("%-28s %10s %10s %10s\n", "ns per call", "plain", "hooked", "added");
    for (int k = 0; k < N_KINDS; k++) {
        qsort(plain[k], (size_t)rounds, sizeof(double), compare);
        qsort(hooked[k], (size_t)rounds, sizeof(double), compare);
        double a = plain[k][rounds / 2], b = hooked[k][rounds / 2];
        printf("%-28s %10.2f %10.2f %10.2f\n", kind[k], a, b, b - a);
    }
    return 0;
}
