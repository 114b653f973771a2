// SPDX-License-Identifier: BSD-3-Clause

// A peer that does what the README of catid/TimeSync says, over UDP on 127.0.0.1. It is no
// part of the project's packages: it measures the original beside ours, live.
//
//	peer PORT PEER_PORT EVERY_US FRAME GAP_US SKEW_PPM AHEAD_US SECONDS
//
// It sends FRAME datagrams GAP_US apart every EVERY_US. Its clock is CLOCK_MONOTONIC, faster by
// SKEW_PPM, and ahead by AHEAD_US. It prints what it gives to the original and what it gets
// back, one a line:
//
//	d STAMP RECEIVED_US DELAY_US REPORT   a datagram, its delay, and what would be reported then
//	r REPORT                              a report
//	q MACHINE_US LOCAL_US REMOTE23        ten times a second: the remote clock

#include <TimeSync/TimeSync.h>

#include <arpa/inet.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static uint64_t machine() {
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ull + t.tv_nsec / 1000;
}

static double skew;
static uint64_t ahead;

static uint64_t local(uint64_t usec) { return usec + ahead + (int64_t)(usec * skew); }

static void put24(uint8_t *b, uint32_t v) { b[0] = v, b[1] = v >> 8, b[2] = v >> 16; }

static uint32_t get24(const uint8_t *b) { return b[0] | b[1] << 8 | b[2] << 16; }

static sockaddr_in address(int port) {
	sockaddr_in a = {};
	a.sin_family = AF_INET;
	a.sin_port = htons(port);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return a;
}

// A datagram is a stamp, 1 if there is a report, and the report.
enum { size = 7 };

static void sendOne(TimeSynchronizer &sync, int fd, const sockaddr_in &to, bool report) {
	uint8_t b[size] = {};
	if (report) {
		b[3] = 1;
		put24(b + 4, sync.GetMinDeltaTS24().ToUnsigned());
	}
	put24(b, TimeSynchronizer::LocalTimeToDatagramTS24(local(machine())));
	sendto(fd, b, size, 0, (const sockaddr *)&to, sizeof to);
}

static void receive(TimeSynchronizer &sync, int fd) {
	uint8_t b[64];
	if (recv(fd, b, sizeof b, MSG_DONTWAIT) != size)
		return;
	uint64_t at = local(machine());
	uint32_t stamp = get24(b);
	unsigned delay = sync.OnAuthenticatedDatagramTimestamp(stamp, at);
	printf("d %u %llu %u %u\n", stamp, (unsigned long long)at, delay, sync.GetMinDeltaTS24().ToUnsigned());
	if (b[3]) {
		uint32_t report = get24(b + 4);
		sync.OnPeerMinDeltaTS24(report);
		printf("r %u\n", report);
	}
}

int main(int argc, char **argv) {
	if (argc != 9)
		return 2;
	const uint64_t every = atoll(argv[3]), gap = atoll(argv[5]), lasting = atoll(argv[8]) * 1000000ull;
	const int frame = atoi(argv[4]);
	skew = atof(argv[6]) * 1e-6;
	ahead = atoll(argv[7]);
	sockaddr_in here = address(atoi(argv[1])), to = address(atoi(argv[2]));
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (bind(fd, (sockaddr *)&here, sizeof here)) {
		perror("bind");
		return 1;
	}
	TimeSynchronizer sync;
	const uint64_t begin = machine();
	uint64_t next = begin, ask = begin, report = begin;
	for (int sent = 0;;) {
		uint64_t now = machine();
		if (now - begin > lasting)
			break;
		if (now >= next) {
			bool due = now >= report;
			if (due)
				report = now + (now - begin < 20000000 ? 500000 : 2000000);
			sendOne(sync, fd, to, due);
			if (++sent < frame)
				next += gap;
			else
				next += every - gap * (frame - 1), sent = 0;
		}
		if (now >= ask) {
			ask += 100000;
			if (sync.IsSynchronized()) {
				now = machine();
				printf("q %llu %llu %u\n", (unsigned long long)now, (unsigned long long)local(now), sync.ToRemoteTime23(local(now)));
			}
			fflush(stdout);
		}
		uint64_t wake = next < ask ? next : ask;
		now = machine();
		timespec wait = {};
		wait.tv_nsec = wake > now ? (wake - now) * 1000 : 0;
		pollfd p = {fd, POLLIN, 0};
		if (ppoll(&p, 1, &wait, nullptr) > 0)
			receive(sync, fd);
	}
	return 0;
}
