// What the attention kernels share: push constants, bindings and the cache's words.
//
// The cache has one word for ELEMENTS neighbouring elements of a head: two halfs, or, in a Q8_0
// cache, four signed bytes, with a float scale for each BLOCK_WORDS words in a plane behind them.

#ifdef CACHE_Q8_0
#define VALUES vec4
#define BLOCK_WORDS 8
#else
#define VALUES vec2
#endif

layout(push_constant) uniform Push {
    uint group;       // query heads of one key-value head
    uint kv_heads;
    uint q_stride;    // VALUES between rows of q
    uint out_stride;  // VALUES between rows of the output
    uint scales_at;   // Q8_0: words before the scales in each cache
    uint partials_at; // VALUES before the parts' sums in `attended`
    uint counters_at; // words before the counters there
    uint max_parts;
    float scale;
};

layout(set = 0, binding = 0, std430) readonly buffer Q {
    VALUES q[];
};
layout(set = 0, binding = 1, std430) readonly buffer KCache {
    uint k_cache[];
};
layout(set = 0, binding = 2, std430) readonly buffer VCache {
    uint v_cache[];
};

VALUES unpacked(uint word)
{
#ifdef CACHE_Q8_0
    return vec4(ivec4(int(word << 24), int(word << 16), int(word << 8), int(word)) >> 24);
#else
    return unpackHalf2x16(word);
#endif
}

float sum_of(VALUES v)
{
#ifdef CACHE_Q8_0
    precise float sum = (v.x + v.y) + (v.z + v.w);
#else
    precise float sum = v.x + v.y;
#endif
    return sum;
}
