// One tile of TILE rows of matvec.comp or matvec_dot.comp, of which `left` exist (the others are computed from row 0 of the
// tile and not stored). Included once per TILE; the arithmetic of a row is the same in each.
#define TILE_NAME_(n) tile_##n
#define TILE_NAME(n) TILE_NAME_(n)

void TILE_NAME(TILE)(uint first, uint row, uint left, uint lane)
{
    precise float sums[OUTPUTS][TILE];
    uint x_row[TILE];
    for (uint r = 0; r < TILE; r++)
        x_row[r] = (row + (r < left ? r : 0)) * (x_stride / 4);
    for (uint o = 0; o < OUTPUTS; o++)
        for (uint r = 0; r < TILE; r++)
            sums[o][r] = 0.0;

    for (uint chunk = lane; chunk < n_chunks; chunk += LANES) {
        weights w[OUTPUTS];
        for (uint o = 0; o < OUTPUTS; o++)
            w[o] = weights_load(min(first + o, m - 1), chunk);
#ifdef WEIGHTS_DOT
        // A chunk is half a block of activations.
        ivec4 bytes[OUTPUTS];
        for (uint o = 0; o < OUTPUTS; o++)
            bytes[o] = weights_bytes(w[o]);
        for (uint r = 0; r < TILE; r++) {
            uint at = x_row[r] + chunk / 2 * 3;
            ivec4 in16 = ivec4(x[at + (chunk & 1u)]);
            uvec4 block = x[at + 2];
            float in_scale = uintBitsToFloat(block.x);
            int in_sum = int((chunk & 1u) == 0u ? block.y : block.z);
            for (uint o = 0; o < OUTPUTS; o++) {
                int part = packed_dot(bytes[o].x, in16.x, 0) + packed_dot(bytes[o].y, in16.y, 0) +
                           packed_dot(bytes[o].z, in16.z, 0) + packed_dot(bytes[o].w, in16.w, 0) -
                           WEIGHTS_BYTE_OFFSET * in_sum;
                precise float scale = w[o].scale * in_scale;
                sums[o][r] = fma(scale, float(part), sums[o][r]);
#if WEIGHTS_HAS_BIAS
                precise float bias_scale = w[o].bias * in_scale;
                sums[o][r] = fma(bias_scale, float(in_sum), sums[o][r]);
#endif
            }
        }
    }
#else
#if WEIGHTS_HAS_SCALE
        precise float parts[OUTPUTS][TILE];
        for (uint o = 0; o < OUTPUTS; o++)
            for (uint r = 0; r < TILE; r++)
                parts[o][r] = 0.0;
#define PARTS parts
#else
#define PARTS sums
#endif
#if WEIGHTS_HAS_BIAS
        precise float totals[TILE];
        for (uint r = 0; r < TILE; r++)
            totals[r] = 0.0;
#endif
        for (uint quad = 0; quad < WEIGHTS_CHUNK / 4; quad++) {
            vec4 q[OUTPUTS];
            for (uint o = 0; o < OUTPUTS; o++)
                q[o] = weights_unpack(w[o], quad);
            // One row at a time: activations of all rows would take too many registers.
            for (uint r = 0; r < TILE; r++) {
                vec4 in4 = x[x_row[r] + chunk * (WEIGHTS_CHUNK / 4) + quad];
#if WEIGHTS_HAS_BIAS
                totals[r] += in4.x;
                totals[r] += in4.y;
                totals[r] += in4.z;
                totals[r] += in4.w;
#endif
                for (uint o = 0; o < OUTPUTS; o++) {
                    PARTS[o][r] = fma(q[o].x, in4.x, PARTS[o][r]);
                    PARTS[o][r] = fma(q[o].y, in4.y, PARTS[o][r]);
                    PARTS[o][r] = fma(q[o].z, in4.z, PARTS[o][r]);
                    PARTS[o][r] = fma(q[o].w, in4.w, PARTS[o][r]);
                }
            }
        }
#if WEIGHTS_HAS_SCALE
        for (uint o = 0; o < OUTPUTS; o++)
            for (uint r = 0; r < TILE; r++) {
                sums[o][r] = fma(w[o].scale, parts[o][r], sums[o][r]);
#if WEIGHTS_HAS_BIAS
                sums[o][r] = fma(w[o].bias, totals[r], sums[o][r]);
#endif
            }
#endif
#undef PARTS
    }
#endif

#if TIER >= 1
    // Loops over all of an array, which Mesa surely unrolls: the sums stay in registers.
    for (uint o = 0; o < OUTPUTS; o++)
        for (uint r = 0; r < TILE; r++)
            sums[o][r] = subgroupAdd(sums[o][r]);
    for (uint o = 0; o < OUTPUTS; o++)
        for (uint r = 0; r < TILE; r++)
            if ((o & 1u) == 0u && lane == 0 && r < left)
                store_pair(first + o, row + r, sums[o][r], sums[o | 1u][r]);
#else
    barrier(); // the last tile's sums have been read
    for (uint o = 0; o < OUTPUTS; o++)
        for (uint r = 0; r < TILE; r++)
            partial[(o * TILE + r) * LANES + lane] = sums[o][r];
    barrier();
    for (uint i = lane; i < OUTPUTS / 2 * TILE; i += LANES) {
        uint o = i / TILE * 2, r = i % TILE;
        precise float total = 0.0, next = 0.0;
        for (uint l = 0; l < LANES; l++) {
            total += partial[(o * TILE + r) * LANES + l];
            next += partial[((o + 1) * TILE + r) * LANES + l];
        }
        if (r < left)
            store_pair(first + o, row + r, total, next);
    }
#endif
}
#undef TILE_NAME
#undef TILE_NAME_
