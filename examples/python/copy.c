/* A bench in C by the protocol of docs/protocol.md, without a library: how fast memcpy is.
 *
 *     cc -O2 -o copy examples/python/copy.c
 *     kernbench run -f ./copy
 */
#define _GNU_SOURCE
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char *from, *to; /* of the present point */
static long size;

static long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void copy(void) {
	memcpy(to, from, size);
	__asm__ volatile("" : : "r"(to) : "memory"); /* the copy is made, although nobody reads it */
}

static void stacks(int signal) { /* of a call that hangs */
	void *frames[64];
	(void)signal;
	backtrace_symbols_fd(frames, backtrace(frames, 64), 2);
}

static void text(FILE *out, const char *s) {
	for (fputc('"', out); *s; s++)
		fprintf(out, strchr("\"\\", *s) || (unsigned char)*s < ' ' ? "\\u%04x" : "%c", *s);
	fputc('"', out);
}

static long number(const char *line, const char *key) {
	const char *at = strstr(line, key);
	return at ? atol(at + strlen(key)) : 0;
}

static void fail(FILE *out, const char *reason) {
	fputs("{\"error\":{\"trace\":\"\",\"reason\":", out), text(out, reason), fputs("}}", out);
}

static void hello(FILE *out, char *line) {
	char *names = strstr(line, "\"watch\":["), *name, *value, *comma = "";
	long i, start, least = 1000000;
	if (number(line, "\"protocol\":") != 1) {
		fail(out, "this program speaks protocol 1");
		return;
	}
	for (i = 0; i < 1000; i++) { /* what the clock adds to a sample */
		start = now();
		start = now() - start;
		if (start < least) least = start;
	}
	fputs("{\"benches\":[{\"name\":\"copy\",\"help\":\"Copies memory by memcpy\",\"axes\":"
	      "[{\"name\":\"size\",\"type\":\"bytes\",\"spec\":\"4K:1M:x16\"}]}],"
	      "\"environ\":{", out);
	names = names ? names + 9 : "";
	names[strcspn(names, "]")] = 0;
	for (name = strtok(names, ",\""); name; name = strtok(NULL, ",\""), comma = ",") {
		fputs(comma, out), text(out, name), fputc(':', out);
		(value = getenv(name)) ? text(out, value) : (void)fputs("null", out);
	}
	fprintf(out, "},\"clock\":{\"name\":\"clock_gettime\",\"overhead\":%ld,\"resolution\":%ld}}", least, least ? least : 1);
}

static void point(FILE *out, const char *line) {
	if (!strstr(line, "\"bench\":\"copy\"") || (size = number(line, "\"name\":\"size\",\"type\":\"bytes\",\"value\":")) <= 0) {
		fail(out, "there is one bench, copy, with a size");
		return;
	}
	from = realloc(from, size), to = realloc(to, size);
	memset(from, 7, size), memset(to, 0, size);
	fprintf(out, "{\"exec\":true,\"verify\":true,\"bytes\":%ld}", 2 * size);
}

static void sample(FILE *out, const char *line) {
	long i, j, start, count = number(line, "\"count\":"), batch = number(line, "\"batch\":");
	long *times = calloc(count, sizeof *times); /* nothing is written while the clock runs */
	for (i = 0; i < count; i++) {
		for (start = now(), j = 0; j < batch; j++)
			copy();
		times[i] = now() - start;
	}
	fputs("{\"samples\":[", out);
	for (i = 0; i < count; i++)
		fprintf(out, "%s%ld", i ? "," : "", times[i]);
	fputs("]}", out), free(times);
}

int main(void) {
	int fd = atoi(getenv("KERNBENCH_SOCKET") ? getenv("KERNBENCH_SOCKET") : "0");
	FILE *in = fdopen(fd, "r"), *out = fdopen(fd, "w");
	char *line = NULL, verb[32];
	size_t room = 0;
	if (!fd || !in || !out)
		return fputs("kernbench run -f FILE starts this program\n", stderr), 2;
	signal(SIGQUIT, stacks);
	while (getline(&line, &room, in) > 0) {
		if (sscanf(line, "{\"%31[a-z]\":", verb) != 1) fail(out, "this is no request");
		else if (!strcmp(verb, "hello")) hello(out, line);
		else if (!strcmp(verb, "point")) point(out, line);
		else if (!size) fail(out, "no such request, or no point before it");
		else if (!strcmp(verb, "call")) copy(), fputs("{}", out);
		else if (!strcmp(verb, "sample")) sample(out, line);
		else if (!strcmp(verb, "verify")) fprintf(out, "{\"wrong\":%d}", memcmp(from, to, size) != 0);
		else fail(out, "no such request");
		fputc('\n', out), fflush(out);
	}
	return 0;
}
