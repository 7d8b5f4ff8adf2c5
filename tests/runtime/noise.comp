#version 450
// Gives test_sample_noise.c the noise of shaders/philox.glsl for any word: an invocation four words.
#extension GL_GOOGLE_include_directive : require
#include "philox.glsl"

layout(local_size_x = 32, local_size_y = 1, local_size_z = 1) in;

layout(push_constant) uniform Push {
    uint n; // groups of four
    uint position;
    uint seed_low;
    uint seed_high;
    uint stream;
    uint block;
};

layout(set = 0, binding = 0, std430) readonly buffer In {
    uvec4 words[];
};
layout(set = 0, binding = 1, std430) writeonly buffer Exponential {
    vec4 exponentials[];
};
layout(set = 0, binding = 2, std430) writeonly buffer Gumbel {
    vec4 gumbels[];
};
// The words of the tokens in `words`.
layout(set = 0, binding = 3, std430) writeonly buffer Philox {
    uvec4 token_words[];
};

void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i >= n)
        return;
    exponentials[i] = exponential(words[i]);
    gumbels[i] = gumbel(words[i]);
    token_words[i] = noise_words(uvec2(seed_low, seed_high), position, words[i],
                                 uvec2(stream, block));
}
