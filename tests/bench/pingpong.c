/* The floor of a round trip: blocking C on both ends of a Unix socket, frames as forged's (4-byte length).
 *
 *   pingpong serve PATH                  echo every frame, one process per connection
 *   pingpong ask PATH COUNT FRAME        send the file FRAME over and over; nanoseconds of each round trip
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { WARM_UP = 200, LARGEST = 1 << 16 };

static char frame[LARGEST], reply[LARGEST];

static void fail(const char *what) { perror(what); exit(2); }

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static size_t take(int peer, char *into, size_t size) {
    size_t have = 0;
    while (have < size) {
        ssize_t got = read(peer, into + have, size - have);
        if (got <= 0) return 0;
        have += got;
    }
    return have;
}

/* The length, then the body, as a C program without a buffer of its own does it. */
static size_t receive(int peer, char *into) {
    uint32_t size;
    if (!take(peer, into, 4)) return 0;
    memcpy(&size, into, 4);
    size = ntohl(size);
    if (size > LARGEST - 4) fail("frame too large");
    return take(peer, into + 4, size) ? 4 + size : 0;
}

static void put(int peer, const char *from, size_t size) {
    if (write(peer, from, size) != (ssize_t)size) fail("write");
}

static struct sockaddr_un address(const char *path) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    strncpy(a.sun_path, path, sizeof a.sun_path - 1);
    return a;
}

static int serve(const char *path) {
    struct sockaddr_un a = address(path);
    int listening = socket(AF_UNIX, SOCK_STREAM, 0);
    signal(SIGCHLD, SIG_IGN);
    if (bind(listening, (void *)&a, sizeof a) || listen(listening, 16)) fail("bind");
    for (;;) {
        int peer = accept(listening, 0, 0);
        if (peer < 0) continue;
        if (fork() == 0) {
            size_t size;
            while ((size = receive(peer, reply))) put(peer, reply, size);
            _exit(0);
        }
        close(peer);
    }
}

static size_t load(const char *path, char *into) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path);
    size_t size = fread(into, 1, LARGEST, file);
    fclose(file);
    return size;
}

static int ask(const char *path, int count, const char *frame_path) {
    size_t size = load(frame_path, frame);
    struct sockaddr_un a = address(path);
    int peer = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(peer, (void *)&a, sizeof a)) fail("connect");
    for (int i = -WARM_UP; i < count; i++) {
        int64_t began = now();
        put(peer, frame, size);
        if (!receive(peer, reply)) fail("reply");
        began = now() - began;
        if (i >= 0) printf("%lld\n", (long long)began);
    }
    return 0;
}

int main(int count, char **words) {
    signal(SIGPIPE, SIG_IGN);
    if (count == 3 && !strcmp(words[1], "serve")) return serve(words[2]);
    if (count == 5 && !strcmp(words[1], "ask")) return ask(words[2], atoi(words[3]), words[4]);
    fprintf(stderr, "usage: serve PATH | ask PATH COUNT FRAME\n");
    return 2;
}
