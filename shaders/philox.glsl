// The random numbers of sampling, four tokens at a time; used by sample.comp and residual.comp.
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) with the seed as
// key and (position, token id, stream, block) as counter. Coupled sampling has (0, 0) for the last two, so
// that target and draft see the same noise; under the other rules of verification each draws from a stream
// of its own, anew in each block (NOISE_* in step_state.h). The CPU reference is runtime/philox.c.
// No function of the device with a precision of its own (log, exp) is used here: the noise has to be
// good at both ends, where log is not.

void philox_round(inout uvec4 c0, inout uvec4 c1, inout uvec4 c2, inout uvec4 c3, uvec2 key)
{
    uvec4 high0, low0, high1, low1;
    umulExtended(uvec4(0xd2511f53u), c0, high0, low0);
    umulExtended(uvec4(0xcd9e8d57u), c2, high1, low1);
    c0 = high1 ^ c1 ^ key.x;
    c1 = low1;
    c2 = high0 ^ c3 ^ key.y;
    c3 = low0;
}

// First output word for each token; stream: (stream, block). Unrolled: loops are counted (see the head of
// sample.comp).
uvec4 noise_words(uvec2 seed, uint position, uvec4 tokens, uvec2 stream)
{
    const uvec2 step = uvec2(0x9e3779b9u, 0xbb67ae85u);
    uvec4 c0 = uvec4(position);
    uvec4 c1 = tokens;
    uvec4 c2 = uvec4(stream.x);
    uvec4 c3 = uvec4(stream.y);
    philox_round(c0, c1, c2, c3, seed);
    philox_round(c0, c1, c2, c3, seed + step);
    philox_round(c0, c1, c2, c3, seed + 2u * step);
    philox_round(c0, c1, c2, c3, seed + 3u * step);
    philox_round(c0, c1, c2, c3, seed + 4u * step);
    philox_round(c0, c1, c2, c3, seed + 5u * step);
    philox_round(c0, c1, c2, c3, seed + 6u * step);
    philox_round(c0, c1, c2, c3, seed + 7u * step);
    philox_round(c0, c1, c2, c3, seed + 8u * step);
    philox_round(c0, c1, c2, c3, seed + 9u * step);
    return c0;
}

// ln((1 + s) / (1 - s)) for 0 <= |s| <= 1/3, relative error under 2^-24 before rounding.
vec4 log_ratio(vec4 s)
{
    precise vec4 z = s * s;
    precise vec4 sum = vec4(1.0 / 15.0);
    sum = fma(sum, z, vec4(1.0 / 13.0));
    sum = fma(sum, z, vec4(1.0 / 11.0));
    sum = fma(sum, z, vec4(1.0 / 9.0));
    sum = fma(sum, z, vec4(1.0 / 7.0));
    sum = fma(sum, z, vec4(1.0 / 5.0));
    sum = fma(sum, z, vec4(1.0 / 3.0));
    sum = fma(sum, z, vec4(1.0));
    precise vec4 result = 2.0 * s * sum;
    return result;
}

// ln x of positive normal numbers: x = 2^e m with m in [sqrt(1/2), sqrt(2)), ln m = log_ratio((m-1)/(m+1)).
vec4 natural_log(vec4 x)
{
    const uint sqrt_half = 0x3f3504f3u;
    uvec4 bits = floatBitsToUint(x) - sqrt_half;
    vec4 e = vec4(ivec4(bits) >> 23);
    vec4 m = uintBitsToFloat((bits & 0x007fffffu) + sqrt_half);
    precise vec4 s = (m - 1.0) / (m + 1.0);
    precise vec4 result = fma(e, vec4(0.693147181), log_ratio(s));
    return result;
}

// E = -ln u, u = (x + 1/2) 2^-32: exponentially distributed, in [2^-33, 22.9]. The upper half of x
// goes through w = 1 - u, which is exact where u would round to 1: -ln(1 - w) = log_ratio(w / (2 - w)).
vec4 exponential(uvec4 x)
{
    const float two_to_minus_32 = 2.3283064365386963e-10;
    bvec4 upper = greaterThanEqual(x, uvec4(0x80000000u));
    uvec4 distance = uvec4(upper.x ? ~x.x : x.x, upper.y ? ~x.y : x.y, upper.z ? ~x.z : x.z,
                           upper.w ? ~x.w : x.w);
    precise vec4 w = (vec4(distance) + 0.5) * two_to_minus_32;
    precise vec4 s = w / (2.0 - w);
    return mix(-natural_log(w), log_ratio(s), upper);
}

// g = -ln E, Gumbel distributed.
vec4 gumbel(uvec4 x)
{
    return -natural_log(exponential(x));
}
