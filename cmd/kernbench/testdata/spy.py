#!/usr/bin/python3
# Runs ./copy, and writes the messages between kernbench and the program to exchange.log.
import os, socket, subprocess, threading

kernbench = socket.socket(fileno=int(os.environ["KERNBENCH_SOCKET"]))
ours, theirs = socket.socketpair()
environ = dict(os.environ, KERNBENCH_SOCKET=str(theirs.fileno()))
program = subprocess.Popen(["./copy"], pass_fds=[theirs.fileno()], env=environ)
theirs.close()
log = open("exchange.log", "a", buffering=1)


def pass_on(source, target, mark):
    for line in source.makefile("r", encoding="utf-8"):
        log.write(mark + " " + line)
        target.sendall(line.encode())
    target.shutdown(socket.SHUT_WR)


threading.Thread(target=pass_on, args=(ours, kernbench, "<"), daemon=True).start()
pass_on(kernbench, ours, ">")
program.wait()
