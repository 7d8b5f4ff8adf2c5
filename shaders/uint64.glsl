// Unsigned 64-bit integers as (low, high) pairs of words: tier 0 has no others. Used by sample.comp and
// residual.comp for sums that must not depend on their order.

uvec2 add64(uvec2 a, uvec2 b)
{
    uint carry;
    uint low = uaddCarry(a.x, b.x, carry);
    return uvec2(low, a.y + b.y + carry);
}

uvec2 subtract64(uvec2 a, uvec2 b)
{
    uint borrow;
    uint low = usubBorrow(a.x, b.x, borrow);
    return uvec2(low, a.y - b.y - borrow);
}

bool less64(uvec2 a, uvec2 b)
{
    return a.y < b.y || (a.y == b.y && a.x < b.x);
}

// The product must fit.
uvec2 multiply64(uvec2 a, uint b)
{
    uint high, low;
    umulExtended(a.x, b, high, low);
    return uvec2(low, high + a.y * b);
}

// ceil(a * fraction / 2^32)
uvec2 share64(uvec2 a, uint fraction)
{
    uint high0, low0, high1, low1;
    umulExtended(a.x, fraction, high0, low0);
    umulExtended(a.y, fraction, high1, low1);
    uvec2 product = add64(uvec2(low1, high1), uvec2(high0, 0u));
    return add64(product, uvec2(low0 != 0u ? 1u : 0u, 0u));
}

// A weight from 0 to 1 in units of 2^-42. Both conversions are exact but for the last truncation.
uvec2 to_units(float weight)
{
    precise float scaled = weight * 1024.0;
    precise float whole = floor(scaled);
    precise float fraction = (scaled - whole) * 4294967296.0;
    return uvec2(uint(fraction), uint(whole));
}

float from_units(uvec2 units)
{
    precise float value = float(units.y) * 0.0009765625 + float(units.x) * 2.2737367544323206e-13;
    return value;
}
