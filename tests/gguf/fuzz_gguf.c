/* Fuzzer of the container reader: opens the input as a GGUF file and uses everything in it.
 *
 * As built by default it replays the files that are its arguments: the corpus in CI, a crash at
 * hand. To fuzz, from the top of the source tree:
 *
 *   CC=clang meson setup build-fuzz -Db_sanitize=address,undefined -Db_lundef=false \
 *       -Dc_args=-fsanitize=fuzzer-no-link
 *   ninja -C build-fuzz tests/gguf/fuzz_gguf
 *   mkdir -p build-fuzz/corpus
 *   build-fuzz/tests/gguf/fuzz_gguf -max_len=4096 build-fuzz/corpus tests/data/fuzz/gguf
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "build_gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gguf_error error;
    char path[64];
    int fd = memfd_create("fuzz.gguf", MFD_CLOEXEC);
    if (fd < 0)
        abort();
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, data + done, size - done);
        if (n <= 0)
            abort();
        done += (size_t)n;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    use_everything(path, &error);
    close(fd);
    return 0;
}

#ifdef OUTRIDER_FUZZ_REPLAY
int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file) {
            perror(argv[i]);
            return 1;
        }
        fseek(file, 0, SEEK_END);
        const long size = ftell(file);
        rewind(file);
        uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
        if (!data || fread(data, 1, (size_t)size, file) != (size_t)size) {
            fprintf(stderr, "%s: can't be read\n", argv[i]);
            return 1;
        }
        fclose(file);
        LLVMFuzzerTestOneInput(data, (size_t)size);
        free(data);
        printf("%s: no crash\n", argv[i]);
    }
    return 0;
}
#endif
