/* mixfile.c -- reads mixes of tides. */
#include "cli/mixfile.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/try.h"
#include "cli/yaml_file.h"

#define MOVE_BYTES_PER_S 1e9 /* a suspended job to its spill file and back */

/* -- the form ------------------------------------------------------------------------------ */

static const cyaml_schema_value_t word_schema = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char *, 0, 4096)};

static const cyaml_schema_field_t job_fields[] = {
    ZI_YAML_WORD("name", zi_mix_entry, name),
    ZI_YAML_WORD("tide", zi_mix_entry, tide),
    ZI_YAML_WORD("shape", zi_mix_entry, shape),
    ZI_YAML_WORD("peak", zi_mix_entry, peak),
    ZI_YAML_WORD("step", zi_mix_entry, step),
    ZI_YAML_WORD("fixed", zi_mix_entry, fixed),
    ZI_YAML_WORD("count", zi_mix_entry, count),
    ZI_YAML_WORD("weight", zi_mix_entry, weight),
    ZI_YAML_WORD("scaling", zi_mix_entry, scaling),
    ZI_YAML_WORD("gap", zi_mix_entry, gap),
    ZI_YAML_WORD("every", zi_mix_entry, every),
    ZI_YAML_WORD("noise", zi_mix_entry, noise),
    ZI_YAML_WORD("warm", zi_mix_entry, warm),
    ZI_YAML_WORD("burst", zi_mix_entry, burst),
    ZI_YAML_WORD("arrive", zi_mix_entry, arrive),
    ZI_YAML_WORD("steps", zi_mix_entry, steps),
    ZI_YAML_WORD("native", zi_mix_entry, native),
    ZI_YAML_WORD("shrink", zi_mix_entry, shrink),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t job_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, zi_mix_entry, job_fields)};

static const cyaml_schema_field_t file_fields[] = {
    ZI_YAML_WORD("cores", zi_mixfile, cores),
    ZI_YAML_WORD("seconds", zi_mixfile, seconds),
    ZI_YAML_WORD("region", zi_mixfile, region),
    ZI_YAML_WORD("seed", zi_mixfile, seed),
    CYAML_FIELD_SEQUENCE("corun", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, zi_mixfile,
                         corun, &word_schema, 0, ZI_SIM_CORES_MAX),
    CYAML_FIELD_SEQUENCE("jobs", CYAML_FLAG_POINTER, zi_mixfile, jobs, &job_schema, 1,
                         ZI_SIM_JOBS_MAX),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t file_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, zi_mixfile, file_fields)};

/* -- tides --------------------------------------------------------------------------------- */

/* `path` as seen from the folder of the mix file. */
static void
beside(const char *mix_path, const char *path, char *ret_path, size_t cap)
{
    const char *slash = strrchr(mix_path, '/');
    int         n = slash && path[0] != '/' ? (int)(slash - mix_path) + 1 : 0;
    snprintf(ret_path, cap, "%.*s%s", n, mix_path, path);
}

static void
recorded_tide(zi_yaml *y, const zi_mix_entry *e, zi_tide *ret_tide)
{
    char   path[4096], *text = NULL;
    size_t n = 0, bad = 0;
    zi_str why = {0};

    beside(y->name, e->tide, path, sizeof path);
    if (zi_yaml_read(path, &why, &text, &n) < 0)
        zi_yaml_blame(y, "tide", e->tide, 0, "%s", zi_str_get(&why));
    else if (zi_tide_parse(text, n, ret_tide, &bad) < 0)
        zi_yaml_blame(y, "tide", e->tide, 0, "%s:%zu: not a tide", path, bad);
    zi_str_free(&why);
    zi_free(text);
}

static void
synthetic_tide(zi_yaml *y, const zi_mix_entry *e, zi_tide *ret_tide)
{
    static const char *const shape[ZI_SIM_N_SHAPES] = {"triangle", "beefy", "lean",
                                                       "ramp"};
    uint64_t                 peak = 0, length = 0;
    int                      k = 0;

    while (k < ZI_SIM_N_SHAPES && strcmp(e->shape, shape[k])) k++;
    if (k == ZI_SIM_N_SHAPES)
        zi_yaml_blame(y, "shape", e->shape, 0,
                      "'%s' is none of triangle, beefy, lean, ramp", e->shape);
    if (!e->peak || !e->step)
        zi_yaml_blame(y, "shape", e->shape, 0, "needs peak (bytes) and step (seconds)");
    zi_yaml_size(y, "peak", e->peak, &peak);
    zi_yaml_seconds(y, "step", e->step, &length);
    if (y->st >= 0 && (peak == 0 || length == 0))
        zi_yaml_blame(y, peak ? "step" : "peak", NULL, 0, "is 0");
    if (y->st >= 0) zi_sim_tide((zi_sim_shape)k, peak, length, 48, ret_tide);
}

static void
find_tide(zi_yaml *y, const zi_mix_entry *e, zi_tide *ret_tide)
{
    if (e->tide && e->shape)
        zi_yaml_blame(y, "shape", e->shape, 0, "a job has a tide or a shape, not both");
    else if (e->tide)
        recorded_tide(y, e, ret_tide);
    else if (e->shape)
        synthetic_tide(y, e, ret_tide);
    else
        zi_yaml_blame(y, "name", e->name, 0, "a job needs a tide or a shape");
}

/* -- the meaning ------------------------------------------------------------------------------ */

static void
understand_job(zi_yaml *y, const zi_mix_entry *e, zi_sim_job *ret_job)
{
    double weight = 1, scaling = 0, noise = 0, warm = 1, burst = 0, steps = 0;

    *ret_job = (zi_sim_job){.native = true};
    find_tide(y, e, &ret_job->tide);
    zi_yaml_size(y, "fixed", e->fixed, &ret_job->fixed_bytes);
    zi_yaml_check(y, "weight", e->weight, 0.001, 1000, &weight);
    zi_yaml_check(y, "scaling", e->scaling, 0.01, 4, &scaling);
    zi_yaml_check(y, "noise", e->noise, 0, 0.9, &noise);
    zi_yaml_check(y, "warm", e->warm, 1, 100, &warm);
    zi_yaml_check(y, "burst", e->burst, 0, 1, &burst);
    zi_yaml_check(y, "steps", e->steps, 1, 1e15, &steps);
    zi_yaml_check(y, "shrink", e->shrink, 0, 10, &ret_job->lean_cost);
    ret_job->can_shrink = e->shrink != NULL;
    zi_yaml_seconds(y, "gap", e->gap, &ret_job->gap_ns);
    zi_yaml_seconds(y, "every", e->every, &ret_job->every_ns);
    zi_yaml_seconds(y, "arrive", e->arrive, &ret_job->arrive_ns);
    if (e->native && strcmp(e->native, "yes") && strcmp(e->native, "no"))
        zi_yaml_blame(y, "native", e->native, 0, "'%s' is neither yes nor no", e->native);
    ret_job->native = !e->native || !strcmp(e->native, "yes");
    ret_job->n_ahead = ret_job->native ? 0 : 1; /* as a command's arena does (client) */
    ret_job->can_suspend = ret_job->native;
    ret_job->weight_milli = (uint32_t)(weight * 1000 + 0.5);
    ret_job->scaling = scaling;
    ret_job->time_noise = noise;
    ret_job->warm_up = warm;
    ret_job->burst_chance = burst;
    ret_job->burst_factor = burst > 0 ? 1.25 : 0;
    ret_job->n_steps = (uint64_t)steps;
}

static void
understand_options(zi_yaml *y, const zi_mixfile *f, zi_sim_options *ret_opt)
{
    double cores = 2, seed = 1;

    *ret_opt = (zi_sim_options){.horizon_ns = 60000000000ull,
                                .region_bytes = 16u << 20,
                                .move_bytes_per_s = MOVE_BYTES_PER_S};
    zi_yaml_check(y, "cores", f->cores, 1, ZI_SIM_CORES_MAX, &cores);
    zi_yaml_check(y, "seed", f->seed, 0, 1e15, &seed);
    zi_yaml_seconds(y, "seconds", f->seconds, &ret_opt->horizon_ns);
    zi_yaml_size(y, "region", f->region, &ret_opt->region_bytes);
    if (ret_opt->horizon_ns == 0) zi_yaml_blame(y, "seconds", f->seconds, 0, "is 0");
    if (ret_opt->region_bytes < (2u << 20) || ret_opt->region_bytes > (64u << 20) ||
        (ret_opt->region_bytes & (ret_opt->region_bytes - 1)))
        zi_yaml_blame(y, "region", f->region, 0, "is a power of two from 2M to 64M");
    ret_opt->n_cores = (uint32_t)cores;
    ret_opt->seed = (uint64_t)seed;
    for (unsigned k = 0; k < f->corun_count; k++)
        zi_yaml_check(y, "corun", f->corun[k], 0.01, 2, &ret_opt->corun[k + 1]);
}

static unsigned
count_of(zi_yaml *y, const zi_mix_entry *e)
{
    double count = 1;
    zi_yaml_check(y, "count", e->count, 1, ZI_SIM_JOBS_MAX, &count);
    return (unsigned)count;
}

static zico_status
understand(zi_yaml *y, const zi_mixfile *f, zi_mix *m)
{
    unsigned n = 0;

    for (unsigned i = 0; i < f->jobs_count; i++) n += count_of(y, &f->jobs[i]);
    if (n > ZI_SIM_JOBS_MAX)
        zi_yaml_blame(y, "count", NULL, 0, "more than %u jobs in all", ZI_SIM_JOBS_MAX);
    understand_options(y, f, &m->opt);
    if (y->st < 0) return y->st;
    m->job = zi_calloc(n, sizeof *m->job);
    m->name = zi_calloc(n, sizeof *m->name);
    if (!m->job || !m->name) return ZICO_E_NOMEM;
    for (unsigned i = 0; i < f->jobs_count && y->st >= 0; i++) {
        const zi_mix_entry *e = &f->jobs[i];
        unsigned            count = count_of(y, e);
        for (unsigned k = 0; k < count && y->st >= 0; k++) {
            zi_sim_job *j = &m->job[m->n_jobs];
            understand_job(y, e, j);
            snprintf(m->name[m->n_jobs], sizeof *m->name,
                     count > 1 ? "%.48s-%u" : "%.48s",
                     e->name    ? e->name
                     : e->shape ? e->shape
                                : "job",
                     k + 1);
            j->name = m->name[m->n_jobs++];
            m->sum_peaks_bytes += j->fixed_bytes + j->tide.peak_bytes;
            m->fixed_bytes += j->fixed_bytes;
            if (j->tide.peak_bytes > m->most_bytes) m->most_bytes = j->tide.peak_bytes;
        }
    }
    return y->st;
}

/* -- the doors --------------------------------------------------------------------------------- */

zico_status
zi_mix_read(const char *path, zi_mix *ret_mix, zi_str *why)
{
    char   *text;
    size_t  n_bytes;
    void   *data;
    zi_yaml y = {.name = path, .why = why, .help = "zico sim --help"};

    *ret_mix = (zi_mix){0};
    ZI_TRY(zi_yaml_read(path, why, &text, &n_bytes));
    y.text = text;
    zico_status st = zi_yaml_load(&y, n_bytes, &file_schema, &data);
    if (st >= 0) st = understand(&y, data, ret_mix);
    zi_yaml_free(&file_schema, data);
    zi_free(text);
    if (st < 0) zi_mix_free(ret_mix);
    return st;
}

void
zi_mix_free(zi_mix *m)
{
    zi_free(m->job);
    zi_free(m->name);
    *m = (zi_mix){0};
}
