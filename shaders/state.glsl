// Step state of a lane, read by every kernel whose work depends on the step.
// Binding 4 is the first STATE_WORDS words of the lane buffer (runtime/step_state.h).

layout(set = 0, binding = 4, std140) uniform StepState {
    uvec4 state_words[STATE_WORDS / 4];
};

uint step_base()
{
    return state_words[S_BASE / 4][S_BASE % 4];
}

uint step_rows()
{
    return state_words[S_ROWS / 4][S_ROWS % 4];
}

uint step_out_first()
{
    return state_words[S_OUT_FIRST / 4][S_OUT_FIRST % 4];
}

uint step_out_rows()
{
    return state_words[S_OUT_ROWS / 4][S_OUT_ROWS % 4];
}

// Workgroup index of dispatches whose x was folded into z past the 65,535 limit.
uint workgroup_index()
{
    return gl_WorkGroupID.x + gl_WorkGroupID.z * gl_NumWorkGroups.x;
}
