/* lease_table_test.c -- the table is consistent whenever the broker is killed. */
#include "broker/lease_table.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "os/fake.h"
#include "test.h"

#define REGION (2ull << 20)

static zi_leases *
make(uint32_t n_regions)
{
    zi_leases_shape shape = {.region_bytes = REGION,
                             .n_regions = n_regions,
                             .budget_bytes = n_regions * REGION,
                             .policy = "zico",
                             .device = "host"};
    zi_leases      *t;
    expect_ok(zi_leases_new(zi_os_real(), &shape, &t));
    return t;
}

static void
join(zi_leases *t, zi_job_id job, const char *name)
{
    zi_table_row row = {.pid = 1, .token = 99, .weight_milli = 1000};
    strcpy(row.name, name);
    zi_leases_join(t, job, &row);
    assert_int_equal(ZI_TABLE_JOINING, t->row[job].state);
    zi_leases_set_state(t, job, ZI_TABLE_LIVE);
}

/* Grant, look, return: owner, hold and generation are what they should be. */
static void
grant_and_return(void **state)
{
    zi_leases *t = make(10);
    zi_run     runs[] = {{2, 3}, {7, 1}}, got[4];
    uint32_t   from = 0;

    (void)state;
    join(t, 5, "five");
    assert_string_equal("five", t->row[5].name);
    zi_leases_grant(t, 5, 42, ZI_HOLD_STEP, runs, 2);
    assert_int_equal(0, t->row[5].granting);
    for (uint32_t i = 0; i < 10; i++) {
        bool mine = (i >= 2 && i < 5) || i == 7;
        assert_int_equal(mine ? 5 : ZI_JOB_NONE, zi_leases_owner(t, i));
        assert_int_equal(mine, zi_leases_resident(t, i));
        if (mine) assert_int_equal(ZI_HOLD_STEP, zi_leases_hold(t, i));
    }
    assert_int_equal(2, zi_leases_granted(t, 5, 42, &from, got, 4));
    assert_memory_equal(runs, got, sizeof runs);
    assert_int_equal(10, from);
    from = 0; /* in pieces, when there is not room for all */
    assert_int_equal(1, zi_leases_granted(t, 5, 42, &from, got, 1));
    assert_int_equal(7, from);
    assert_int_equal(1, zi_leases_granted(t, 5, 42, &from, got, 1));
    assert_int_equal(10, from);
    from = 0;
    assert_int_equal(0, zi_leases_granted(t, 5, 41, &from, got, 4));

    uint64_t before = t->region[7].owner >> 32;
    zi_leases_return(t, &runs[1], 1);
    assert_int_equal(ZI_JOB_NONE, zi_leases_owner(t, 7));
    assert_true(zi_leases_resident(t, 7)); /* its pages are still there */
    zi_leases_cold(t, &runs[1], 1);
    assert_false(zi_leases_resident(t, 7));
    zi_leases_grant(t, 5, 43, ZI_HOLD_FIXED, &runs[1], 1);
    assert_int_equal(before + 1, t->region[7].owner >> 32);
    zi_leases_leave(t, 5);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(ZI_JOB_NONE, zi_leases_owner(t, i));
    assert_int_equal(ZI_TABLE_FREE, t->row[5].state);
    zi_leases_free(t);
}

/* Killed in the middle of writing a grant: the successor takes back what nobody was told,
 * and nothing else. */
static void
half_a_grant_is_undone(void **state)
{
    zi_run before = {0, 2}, whole = {4, 4};

    (void)state;
    for (uint32_t written = 0; written <= 4; written++) {
        zi_leases *t = make(10);
        join(t, 1, "one");
        zi_leases_grant(t, 1, 10, ZI_HOLD_FIXED, &before, 1);
        zi_leases_grant(t, 1, 11, ZI_HOLD_FIXED, &(zi_run){whole.first, written},
                        written > 0);
        atomic_store(&t->row[1].granting, 11u); /* as it is between the stores */
        zi_leases_repair(t, 1);
        assert_int_equal(0, t->row[1].granting);
        for (uint32_t i = 0; i < 10; i++)
            assert_int_equal(i < 2 ? 1 : ZI_JOB_NONE, zi_leases_owner(t, i));
        zi_leases_repair(t, 1); /* twice does no harm */
        assert_int_equal(1, zi_leases_owner(t, 0));
        zi_leases_free(t);
    }
}

/* A table handed back is copied, row for row; the copy can be written. */
static void
handed_back(void **state)
{
    zi_leases *t = make(10), *copy = NULL;

    (void)state;
    join(t, 3, "three");
    zi_leases_grant(t, 3, 8, ZI_HOLD_STEP, &(zi_run){6, 2}, 1);
    t->head->epoch = 5;
    expect_ok(zi_leases_import(zi_os_real(), t->fd, &copy));
    assert_int_equal(3, zi_leases_owner(copy, 7));
    assert_string_equal("three", copy->row[3].name);
    assert_int_equal(5, copy->head->epoch);
    assert_int_not_equal(t->fd, copy->fd);
    zi_leases_leave(copy, 3);
    assert_int_equal(3, zi_leases_owner(t, 7)); /* not the same memory */
    zi_leases_free(t);
    zi_leases_free(copy);
}

/* What is not a table of ours is refused: other files, missing seals, wrong sizes, damaged
 * heads, owners that do not exist. */
static void
not_a_table(void **state)
{
    const zi_os *os = zi_os_real();
    zi_leases   *copy = NULL, *t;
    int          plain = (int)os->memfd(os, "plain", MFD_ALLOW_SEALING);

    (void)state;
    assert_int_equal(0, ftruncate(plain, 1 << 20));
    expect_status(ZICO_E_PROTO, zi_leases_import(os, plain, &copy));
    assert_int_equal(0, os->seal_add(os, plain, F_SEAL_SHRINK | F_SEAL_GROW | 0x10));
    expect_status(ZICO_E_PROTO, zi_leases_import(os, plain, &copy));
    close(plain);
    int dir = open("/", O_RDONLY | O_CLOEXEC);
    expect_status(ZICO_E_PROTO, zi_leases_import(os, dir, &copy));
    close(dir);

    for (unsigned damage = 0; damage < 7; damage++) {
        t = make(10);
        join(t, 3, "three");
        switch (damage) {
        case 0:
            t->head->magic ^= 1;
            break;
        case 1:
            t->head->version++;
            break;
        case 2:
            t->head->n_regions = 1u << 30;
            break;
        case 3:
            t->head->jobs_max = 7;
            break;
        case 4:
            t->region[2].owner = zi_table_owner_pack(4, 1, 1);
            break; /* a free row */
        case 5:
            t->region[2].owner = zi_table_owner_pack(3, 3, 1);
            break; /* no such hold */
        case 6:
            memset(t->row[3].name, 'x', sizeof t->row[3].name);
            break;
        }
        expect_status(ZICO_E_PROTO, zi_leases_import(os, t->fd, &copy));
        t->head->n_regions = 10;
        zi_leases_free(t);
    }
    assert_null(copy);
}

/* Every system call of making and copying a table fails once: a status, and nothing left. */
static void
every_call_fails_once(void **state)
{
    zi_leases_shape shape = {.region_bytes = REGION,
                             .n_regions = 4,
                             .budget_bytes = 4 * REGION,
                             .policy = "zico",
                             .device = "host"};
    zi_leases      *good = make(4), *t;
    zi_fake        *f;

    (void)state;
    expect_ok(zi_fake_new(&f));
    for (uint64_t n = 0;; n++) {
        zi_fake_fail_at(f, NULL, n, ENOMEM);
        zico_status st = zi_leases_new(zi_fake_os(f), &shape, &t);
        if (st >= 0) {
            bool done = !zi_fake_failed(f);
            zi_leases_free(t);
            if (done) break;
        }
    }
    for (uint64_t n = 0;; n++) {
        zi_fake_fail_at(f, NULL, n, ENOMEM);
        zico_status st = zi_leases_import(zi_fake_os(f), good->fd, &t);
        bool        done = !zi_fake_failed(f);
        if (st >= 0) zi_leases_free(t);
        if (done) break;
        if (n > 100) fail_msg("never done");
    }
    zi_fake_free(f);
    zi_leases_free(good);
    zi_leases_free(NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grant_and_return),      cmocka_unit_test(half_a_grant_is_undone),
        cmocka_unit_test(handed_back),           cmocka_unit_test(not_a_table),
        cmocka_unit_test(every_call_fails_once),
    };
    return t_main(tests);
}
