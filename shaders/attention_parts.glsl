// The parts' sums of a query in `attended`, added up in their order. For those who declare it, and the
// constants LANES and WORDS. Each lane writes its own words of the output.
void add_parts(uint row, uint head, uint n_parts)
{
    uint at = partials_at + (row * kv_heads * group + head) * max_parts * (WORDS + 1u);
    precise float maximum = -3.4e38;
    precise float total = 0.0;
    for (uint part = 0; part < n_parts; part++)
        maximum = max(maximum, attended[at + part * (WORDS + 1u) + WORDS].x);
    for (uint part = 0; part < n_parts; part++) {
        VALUES part_end = attended[at + part * (WORDS + 1u) + WORDS];
        total = fma(part_end.y, exp(part_end.x - maximum), total);
    }
    for (uint w = gl_LocalInvocationID.x; w < WORDS; w += LANES) {
        precise VALUES sum = VALUES(0.0);
        for (uint part = 0; part < n_parts; part++) {
            uint from = at + part * (WORDS + 1u);
            sum = fma(attended[from + w], VALUES(exp(attended[from + WORDS].x - maximum)), sum);
        }
        attended[row * out_stride + head * WORDS + w] = sum / total;
    }
}
