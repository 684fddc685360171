// The environment's switches, by the rules of iris/knobs.py: an empty one is as if it were not set.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

enum { USUAL_SECONDS = 10, MOST_SECONDS = 1000000 };

// Null, or which of them means nothing, and what it should be.
const char *settings_wrong(void);

unsigned long setting_seed(void);
double setting_seconds(void);
int setting_sanitize(void);
int setting_strict(void);
int setting_flush(void);

#ifdef __cplusplus
}
#endif
