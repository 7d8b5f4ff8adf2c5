/* Bands of the draft's own probability of a token. Shared with the shaders (this file is C and GLSL).
 */
#ifndef OUTRIDER_CALIBRATION_BANDS_H
#define OUTRIDER_CALIBRATION_BANDS_H

#define CALIBRATION_BANDS 8
/* Upper limits, of all bands but the last. */
#define CALIBRATION_LIMITS 0.15f, 0.3f, 0.45f, 0.6f, 0.75f, 0.87f, 0.96f

#endif
