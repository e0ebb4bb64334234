/* The part of a stub driver that finds entry points by name and version, and keeps a list of what
 * it was asked. stub.rs defines ROWS (name, version that brought it, function) and DRIVER_VERSION. */
#include <string.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_FOUND = 500, QUESTIONS_MAX = 1000 };

int cuGetProcAddress_v2(const char *, void **, int, unsigned long long, int *);

static const struct row {
    const char *name;
    int since;
    void *function;
} rows[] = {ROWS{"cuGetProcAddress", 12000, cuGetProcAddress_v2}};

static struct question {
    char name[64];
    int version;
    unsigned long long flags;
} questions[QUESTIONS_MAX];
static int question_count;

int cuGetProcAddress_v2(const char *name, void **pointer, int version, unsigned long long flags,
                        int *status) {
    if (question_count < QUESTIONS_MAX) {
        struct question *question = &questions[question_count++];
        strncpy(question->name, name, sizeof question->name - 1);
        question->version = version;
        question->flags = flags;
    }
    *pointer = 0;
    if (DRIVER_VERSION < version) return INVALID_VALUE;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, name) != 0) continue;
        *status = version < rows[i].since ? 2 : 0;
        if (version < rows[i].since) return NOT_FOUND;
        *pointer = rows[i].function;
        return SUCCESS;
    }
    *status = 1;
    return NOT_FOUND;
}

const char *stub_asked(int index, int *version, unsigned long long *flags) {
    if (question_count <= index) return 0;
    *version = questions[index].version;
    *flags = questions[index].flags;
    return questions[index].name;
}
