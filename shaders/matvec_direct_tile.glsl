// One tile of TILE rows of matvec_direct.comp, of which `left` exist (the others are computed from the
// tile's first row and not stored). Included once per TILE; the arithmetic of a row is the same in each.
#define TILE_NAME_(n) tile_##n
#define TILE_NAME(n) TILE_NAME_(n)

void TILE_NAME(TILE)(uint first, uint row, uint left)
{
    precise float sums[OUTPUTS][TILE];
    uint x_row[TILE];
    for (uint r = 0; r < TILE; r++)
        x_row[r] = (row + (r < left ? r : 0)) * (x_stride / 4);
    for (uint o = 0; o < OUTPUTS; o++)
        for (uint r = 0; r < TILE; r++)
            sums[o][r] = 0.0;

    for (uint chunk = 0; chunk < n_chunks; chunk++) {
        weights w[OUTPUTS];
        for (uint o = 0; o < OUTPUTS; o++)
            w[o] = weights_load(min(first + (o & ~1u) * LANES + (o & 1u), m - 1), chunk);
        for (uint quad = 0; quad < WEIGHTS_CHUNK / 4; quad++) {
            vec4 value[OUTPUTS];
            for (uint o = 0; o < OUTPUTS; o++)
                value[o] = weights_value(w[o], quad);
            for (uint r = 0; r < TILE; r++) {
                vec4 in4 = x[x_row[r] + chunk * (WEIGHTS_CHUNK / 4) + quad];
                for (uint o = 0; o < OUTPUTS; o++) {
                    sums[o][r] = fma(value[o].x, in4.x, sums[o][r]);
                    sums[o][r] = fma(value[o].y, in4.y, sums[o][r]);
                    sums[o][r] = fma(value[o].z, in4.z, sums[o][r]);
                    sums[o][r] = fma(value[o].w, in4.w, sums[o][r]);
                }
            }
        }
    }
    // Mesa surely unrolls a loop over all of an array; a loop over every second element would leave the sums
    // in memory (four times slower on lavapipe).
    for (uint o = 0; o < OUTPUTS; o++)
        for (uint r = 0; r < TILE; r++)
            if ((o & 1u) == 0u && r < left)
                store_pair(first + o * LANES, row + r, sums[o][r], sums[o | 1u][r]);
}
#undef TILE_NAME
#undef TILE_NAME_
