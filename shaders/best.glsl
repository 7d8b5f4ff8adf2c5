// Floats in the order of unsigned integers, and the best of a workgroup's items: the highest key, then the
// lowest id. Used by sample.comp and residual.comp.

shared uint best_key;
shared uint best_id;

// Keys order floats as unsigned integers; 0 is never chosen (NaN, -inf). -0 equals 0.
uint key_of(float value)
{
    uint bits = floatBitsToUint(value);
    uint magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u || bits == 0xff800000u)
        return 0u;
    if (magnitude == 0u)
        return 0x80000000u;
    magnitude = min(magnitude, 0x7f7fffffu);
    return (bits & 0x80000000u) != 0u ? ~(magnitude | 0x80000000u) : magnitude | 0x80000000u;
}

float value_of(uint key)
{
    return uintBitsToFloat((key & 0x80000000u) != 0u ? key & 0x7fffffffu : ~key);
}

// The highest key of all invocations and its lowest id: best_key, best_id. Begins and ends with a barrier.
void best_of_all(uint key, uint id)
{
    barrier();
    if (gl_LocalInvocationID.x == 0u) {
        best_key = 0u;
        best_id = 0xffffffffu;
    }
    barrier();
    atomicMax(best_key, key);
    barrier();
    if (key == best_key)
        atomicMin(best_id, id);
    barrier();
}

// An invocation's best item so far.
void keep_better(inout uvec2 best, uint key, uint id)
{
    if (key > best.x || (key == best.x && id < best.y))
        best = uvec2(key, id);
}
