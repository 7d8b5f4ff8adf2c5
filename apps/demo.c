/* Where the demo models are: $OUTRIDER_MODELS; beside an installed program; in the source tree that
 * the program was built from; in the data folder that it was configured for. */
#include "demo.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "message.h"

static char *join(const char *folder, const char *rest, const char *name)
{
    size_t n = strlen(folder) + strlen(rest) + strlen(name) + 2;
    char *path = malloc(n);

    if (path)
        snprintf(path, n, "%s%s/%s", folder, rest, name);
    return path;
}

/* Folder of the running program, "" when the system doesn't tell. */
static void program_folder(char folder[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    char *slash;

    folder[n > 0 ? n : 0] = '\0';
    slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
}

char *demo_path(const char *name, int *code)
{
    const char *chosen = getenv("OUTRIDER_MODELS");
    char program[PATH_MAX];
    const char *folders[][2] = {
        {program, "/../share/outrider/models"},
        {OUTRIDER_SOURCE_MODELS, ""},
        {OUTRIDER_DATA_DIR, "/outrider/models"},
    };

    if (chosen && *chosen) {
        char *path = join(chosen, "", name);

        if (path && access(path, R_OK) == 0)
            return path;
        *code = path ? fail(EXIT_CODE_INPUT,
                            "no demo model %s in '%s' (OUTRIDER_MODELS); give a model with -m",
                            name, chosen)
                     : fail_memory();
        free(path);
        return NULL;
    }
    program_folder(program);
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        char *path;

        if (!folders[i][0][0])
            continue;
        path = join(folders[i][0], folders[i][1], name);
        if (!path) {
            *code = fail_memory();
            return NULL;
        }
        if (access(path, R_OK) == 0) {
            char *real = realpath(path, NULL);

            if (real) {
                free(path);
                path = real;
            }
            return path;
        }
        free(path);
    }
    *code = fail(EXIT_CODE_INPUT,
                 "the demo model %s isn't installed in " OUTRIDER_DATA_DIR "/outrider/models; give "
                 "a model with -m, or the folder in OUTRIDER_MODELS",
                 name);
    return NULL;
}
