#include "settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SANITIZE "IRIS_SOFTMETAL_SANITIZE"
#define STRICT "IRIS_SOFTMETAL_STRICT"
#define FLUSH "IRIS_SOFTMETAL_FLUSH"

// Null where it is not set.
static const char *word(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

static int read_seed(unsigned long *made)
{
    const char *text = word("IRIS_SOFTMETAL_SEED");
    *made = 0;
    if (!text) return 1;
    errno = 0;
    *made = strtoul(text, NULL, 10);
    return !errno && !text[strspn(text, "0123456789")];
}

static int read_seconds(double *made)
{
    const char *text = word("IRIS_SOFTMETAL_TIMEOUT");
    *made = USUAL_SECONDS;
    if (!text) return 1;
    char *end;
    const double seconds = strtod(text, &end);
    // No hexadecimal number, infinity or nan.
    if (*end || text[strspn(text, "0123456789.eE+-")] || !strchr("0123456789.", *text)) return 0;
    if (!(seconds > 0 && seconds <= MOST_SECONDS)) return 0;
    *made = seconds;
    return 1;
}

static int read_switch(const char *name, int *made)
{
    const char *text = word(name);
    *made = text && strcmp(text, "1") == 0;
    return !text || *made || strcmp(text, "0") == 0;
}

static int is_on(const char *name)
{
    int on;
    read_switch(name, &on);
    return on;
}

const char *settings_wrong(void)
{
    unsigned long seed;
    double seconds;
    int on;
    if (!read_switch(SANITIZE, &on)) return SANITIZE " is 0 or 1";
    if (!read_switch(STRICT, &on)) return STRICT " is 0 or 1";
    if (!read_switch(FLUSH, &on)) return FLUSH " is 0 or 1";
    if (!read_seed(&seed)) return "IRIS_SOFTMETAL_SEED is an integer from 0 to 2**64 - 1";
    if (!read_seconds(&seconds))
        return "IRIS_SOFTMETAL_TIMEOUT is a number of seconds, over 0 and at most a million";
    return NULL;
}

unsigned long setting_seed(void)
{
    unsigned long seed;
    read_seed(&seed);
    return seed;
}

double setting_seconds(void)
{
    double seconds;
    read_seconds(&seconds);
    return seconds;
}

int setting_sanitize(void) { return is_on(SANITIZE); }
int setting_strict(void) { return is_on(STRICT); }
int setting_flush(void) { return is_on(FLUSH); }
