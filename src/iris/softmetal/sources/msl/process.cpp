#include "process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

extern char **environ;

namespace msl {

Outcome run_program(const std::vector<std::string> &arguments, const std::vector<const MemoryFile *> &files,
                    const MemoryFile *standard_output) {
    int pipe_ends[2];
    if (pipe2(pipe_ends, O_CLOEXEC)) return {false, std::strerror(errno)};
    std::vector<char *> words;
    for (const std::string &argument : arguments) words.push_back(const_cast<char *>(argument.c_str()));
    words.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, standard_output ? standard_output->descriptor() : pipe_ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 2);
    // To the number that it has: it then outlives the start of the program.
    for (const MemoryFile *file : files) {
        posix_spawn_file_actions_adddup2(&actions, file->descriptor(), file->descriptor());
    }
    pid_t child;
    const int wrong = posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_ends[1]);
    Outcome made = {false, wrong ? arguments[0] + ": " + std::strerror(wrong) + "\n" : ""};
    char buffer[4096];
    for (ssize_t got; (got = read(pipe_ends[0], buffer, sizeof buffer)) != 0;) {
        if (got > 0) made.output.append(buffer, size_t(got));
        if (got < 0 && errno != EINTR) break;
    }
    close(pipe_ends[0]);
    if (wrong) return made;
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    made.succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return made;
}

}  // namespace msl
