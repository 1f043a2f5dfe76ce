/* sim_tides.c -- synthetic tides in the shapes that real networks have. */
#include "sim/sim.h"

#include "base/check.h"

/* Height of a shape, as part of the peak, at a part of the step. */
static double
height_at(zi_sim_shape shape, double x)
{
    static const double corner[ZI_SIM_N_SHAPES][4][2] = {
        [ZI_SIM_TRIANGLE] = {{0, 0}, {0.36, 1}, {0.38, 1}, {1, 0}},
        [ZI_SIM_BEEFY] = {{0, 0}, {0.2, 1}, {0.75, 0.9}, {1, 0}},
        [ZI_SIM_LEAN] = {{0, 0.1}, {0.4, 0.25}, {0.5, 1}, {0.6, 0.1}},
        [ZI_SIM_RAMP] = {{0, 0}, {0.85, 1}, {0.95, 1}, {1, 0}},
    };
    const double(*c)[2] = corner[shape];

    for (int i = 0; i < 3; i++)
        if (x <= c[i + 1][0])
            return c[i][1] +
                   (c[i + 1][1] - c[i][1]) * (x - c[i][0]) / (c[i + 1][0] - c[i][0]);
    return c[3][1] * (1 - x) / (1 - c[3][0] + 1e-9);
}

void
zi_sim_tide(zi_sim_shape shape, uint64_t peak_bytes, uint64_t length_ns,
            uint32_t n_points, zi_tide *ret_tide)
{
    zi_tide t = {.length_ns = length_ns};
    int64_t height = 0;

    zi_assert(shape < ZI_SIM_N_SHAPES);
    if (n_points > ZI_TIDE_POINTS_MAX - 1) n_points = ZI_TIDE_POINTS_MAX - 1;
    if (n_points < 4) n_points = 4;
    for (uint32_t i = 0; i <= n_points; i++) {
        double  x = (double)i / n_points;
        double  most = 0;
        int64_t next;
        for (int k = 0; k <= 16; k++) { /* the highest of the stretch that begins here */
            double h = height_at(shape, x + k / 16.0 / n_points);
            if (h > most) most = h;
        }
        next = i == n_points ? 0 : (int64_t)(most * (double)peak_bytes);
        if (next == height) continue;
        t.point[t.n_points++] =
            (zi_tide_point){(uint64_t)(x * (double)length_ns), next - height};
        height = next;
        if ((uint64_t)height > t.peak_bytes) t.peak_bytes = (uint64_t)height;
    }
    *ret_tide = t;
    zi_assert_slow(zi_tide_verify(ret_tide) == ZICO_OK);
}
