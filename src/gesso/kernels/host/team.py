"""Writes the kernels by which threads share a job: they take pieces of it one after the other until none is left.

A layer has a handful of products within a few milliseconds, and waking a thread takes a tenth of one. So a helper that
has nothing to do looks on for a while before it sleeps, without Python and its lock. Life cycle of a helper:

    asleep (in Python) --woken--> watching --a job is open--> inside --nothing left--> watching --too long--> asleep

The words that threads share lie in cache lines of their own (`WORDS` 64-bit numbers apart). A job is open while `JOB`
is odd. A helper says that it is `INSIDE` before it reads anything of the job, and looks whether the job is still the
one that it saw; whoever opened it closes it, and waits until nobody is inside. A helper that goes to sleep says so
first and then looks for a job once more, and who opens one looks for sleepers afterwards: one of both sees the other.

Looking on is given up at once where it would hold others up: where the helper was interrupted meanwhile (somebody else
wants its processor), or runs on the very processor of the thread that it helps.
"""

from llvmlite import ir

from gesso.kernels.host.llvm_ir import I32, I64, POINTER, VOID, Loop, Value, Writer, constant, declare

WORDS = 8
JOB, INSIDE, TAKEN, WATCH, RESTED, DATA, STATES = range(7)
"""Numbers of the words: the job's, helpers inside it, units taken, nanoseconds that helpers look on, when they may do
so again, the line of what is to be done, and the first helper's state."""
WORK, CONTEXT, COUNT, THREADS, PLACE = range(5)
"""Words of the line `DATA`: what is called, by what, units of the job, threads, and the processor of who opened it."""
ASLEEP, AWAKE, CALLED = range(3)
"""States of a helper; `CALLED` is asleep no longer than until Python wakes it."""
DONE, BUSY = 0, -1
"""What `share`, `finish` and `wait` return, beside the number of helpers to be woken."""
PAUSES, PATIENCE = 16, 256
"""Pauses of the processor between two looks at the clock, and how many times so many one waits for helpers."""
INTERRUPTED, REST = 200_000, 20_000_000
"""Nanoseconds between two looks at the clock that mean an interruption, and for which nobody looks on afterwards."""
_WORK = ir.FunctionType(VOID, [POINTER, I64, I64, I64])
_CLOCK, _CPU = ir.FunctionType(I32, [I32, POINTER]), ir.FunctionType(I32, [])


class _Shared(Writer):
    """Builds a function whose first argument is where the shared words are."""

    @property
    def team(self) -> Value:
        return self.made.args[0]

    def word(self, line: int, place: int = 0) -> Value:
        """Returns the address of a word."""
        return self.at(self.team, constant(WORDS * line + place), I64)

    def see(self, word: Value) -> Value:
        """Reads a word that others write."""
        return self.load_atomic(word, "seq_cst", 8, typ=I64)

    def tell(self, value: Value, word: Value) -> None:
        """Writes a word that others read."""
        self.atomic_rmw("xchg", word, value, "seq_cst")

    def swap(self, word: Value, before: Value, after: Value) -> Value:
        """Writes a word if it is still as it was; returns whether it was."""
        return self.extract_value(self.cmpxchg(word, before, after, "seq_cst", "seq_cst"), 1)

    def state(self, helper: Value) -> Value:
        """Returns the address of a helper's state."""
        return self.at(self.word(STATES), self.mul(helper, constant(WORDS)), I64)

    def pause(self) -> None:
        """Lets the processor do nothing for a moment."""
        triple = str(self.module.triple)
        if triple.startswith(("x86_64", "i686", "AMD64")):
            self.call(declare(self.module, "llvm.x86.sse2.pause", VOID, []), [])
        elif triple.startswith(("aarch64", "arm64")):
            self.call(declare(self.module, "llvm.aarch64.hint", VOID, [I32]), [constant(1, I32)])
        else:
            self.fence("seq_cst")

    def pauses(self) -> None:
        """Pauses `PAUSES` times."""
        loop = Loop(self, constant(0), constant(PAUSES))
        self.pause()
        loop.close()

    def block_of(self, *names: str) -> list[Value]:
        """Makes blocks."""
        return [self.made.append_basic_block(name) for name in names]

    def call_at(self, address: Value, kind: ir.FunctionType, arguments: list[Value]) -> Value:
        """Calls a function by its address."""
        return self.call(self.inttoptr(address, kind.as_pointer()), arguments)


def _write_participate(module: ir.Module) -> Value:
    """Writes `participate(team, thread)`: takes units, fewer the fewer are left, and does them, until all are taken."""
    build = _Shared(module, "participate", VOID, [POINTER, I64])
    build.made.linkage = "internal"
    team, thread = build.made.args
    del team
    work, context, count, threads = (build.read(build.word(DATA, i), I64) for i in (WORK, CONTEXT, COUNT, THREADS))
    context = build.inttoptr(context, POINTER)
    head, some, own, done = build.block_of("head", "some", "own", "done")
    build.branch(head)
    build.position_at_end(head)
    begin = build.see(build.word(TAKEN))
    build.cbranch(build.icmp_signed("<", begin, count), some, done)
    build.position_at_end(some)
    share = build.sdiv(build.sub(count, begin), build.mul(threads, constant(2)))
    share = build.select(build.icmp_signed("<", share, constant(1)), constant(1), share)
    end = build.add(begin, share)
    build.cbranch(build.swap(build.word(TAKEN), begin, end), own, head)
    build.position_at_end(own)
    build.call_at(work, _WORK, [context, thread, begin, end])
    build.branch(head)
    build.position_at_end(done)
    build.ret_void()
    return build.made


def _write_wait(module: ir.Module) -> Value:
    """Writes `wait(team)`: waits a while until nobody is inside the job; returns `DONE` or `BUSY`."""
    build = _Shared(module, "wait", I64, [POINTER])
    loop = Loop(build, constant(0), constant(PATIENCE))
    with build.if_then(build.icmp_signed("==", build.see(build.word(INSIDE)), constant(0))):
        build.ret(constant(DONE))
    build.pauses()
    loop.close()
    build.ret(constant(BUSY))
    return build.made


def write_team(module: ir.Module) -> None:
    """Writes the kernels of a team; `kernels.host.threads` calls them.

    - `share(team, work, context, count, threads, watch, cpu)` opens a job of `count` units: work(context, thread,
      begin, end). Returns how many helpers have to be woken, whose state is `CALLED`; where all are awake it does what
      `finish` does, and returns that.
    - `finish(team)` takes part, closes the job and waits; returns `DONE`, or `BUSY` where somebody is still inside.
    - `wait(team)` waits once more.
    - `serve(team, helper, clock, clock_kind, cpu)` is a helper's life until it goes to sleep.

    `clock` and `cpu` are addresses of the system's `clock_gettime` and `sched_getcpu`, or 0.
    """
    participate, wait = _write_participate(module), _write_wait(module)
    finish = _Shared(module, "finish", I64, [POINTER])
    finish.call(participate, [finish.team, constant(0)])
    finish.tell(finish.add(finish.see(finish.word(JOB)), constant(1)), finish.word(JOB))
    finish.ret(finish.call(wait, [finish.team]))
    _write_share(module, finish.made)
    _Serve(module, participate)


def _place(build: _Shared, cpu: Value, none: int) -> Value:
    """Returns the number of the processor that this thread runs on; `none` where the system does not say."""
    before, ask, done = build.block, *build.block_of("ask", "asked")
    build.cbranch(build.icmp_signed("==", cpu, constant(0)), done, ask)
    build.position_at_end(ask)
    found = build.sext(build.call_at(cpu, _CPU, []), I64)
    build.branch(done)
    build.position_at_end(done)
    place = build.phi(I64)
    place.add_incoming(constant(none), before)
    place.add_incoming(found, ask)
    return place


def _write_share(module: ir.Module, finish: Value) -> None:
    build = _Shared(module, "share", I64, [POINTER, I64, I64, I64, I64, I64, I64])
    _, work, context, count, threads, watch, cpu = build.made.args
    place = _place(build, cpu, -1)
    for value, number in ((work, WORK), (context, CONTEXT), (count, COUNT), (threads, THREADS), (place, PLACE)):
        build.write(value, build.word(DATA, number))
    build.tell(watch, build.word(WATCH))
    build.tell(constant(0), build.word(TAKEN))
    build.tell(build.add(build.see(build.word(JOB)), constant(1)), build.word(JOB))
    helpers = Loop(build, constant(0), build.sub(threads, constant(1)), carried=[constant(0)])
    asleep = build.swap(build.state(helpers.index), constant(ASLEEP), constant(CALLED))
    helpers.close(build.add(helpers.carried[0], build.zext(asleep, I64)))
    with build.if_then(build.icmp_signed(">", helpers.carried[0], constant(0))):
        build.ret(helpers.carried[0])
    build.ret(build.call(finish, [build.team]))


class _Serve(_Shared):
    """Writes `serve`."""

    def __init__(self, module: ir.Module, participate: Value) -> None:
        super().__init__(module, "serve", VOID, [POINTER, I64, I64, I32, I64])
        _, self.helper, self.clock, self.kind, self.cpu = self.made.args
        self.time = self.alloca(ir.LiteralStructType([I64, I64]))
        self.seen, self.since, self.last = (self.alloca(I64) for _ in range(3))
        self.standing = self.state(self.helper)
        self.tell(constant(AWAKE), self.standing)
        self.store(constant(-1), self.seen)
        self.fresh, self.look, self.sleep = self.block_of("fresh", "look", "sleep")
        self.branch(self.fresh)
        self.position_at_end(self.fresh)
        now = self._now()
        self.store(now, self.since)
        self.store(now, self.last)
        self.branch(self.look)
        self.position_at_end(self.look)
        inside, idle = self.block_of("inside", "idle")
        job = self.see(self.word(JOB))
        self.cbranch(self._is_new(job), inside, idle)
        self.position_at_end(inside)
        self._write_inside(job, participate)
        self.position_at_end(idle)
        self._write_idle()
        self.position_at_end(self.sleep)
        self._write_sleep()

    def _write_inside(self, job: Value, participate: Value) -> None:
        """Takes part in the job, unless it has been closed meanwhile."""
        still, left = self.block_of("still", "left")
        self.atomic_rmw("add", self.word(INSIDE), constant(1), "seq_cst")
        self.cbranch(self.icmp_signed("==", self.see(self.word(JOB)), job), still, left)
        self.position_at_end(still)
        self.call(participate, [self.team, self.add(self.helper, constant(1))])
        place = self.read(self.word(DATA, PLACE), I64)
        with self.if_then(self.icmp_signed("==", place, _place(self, self.cpu, -2))):
            self._rest()
        self.store(job, self.seen)
        self.branch(left)
        self.position_at_end(left)
        self.atomic_rmw("sub", self.word(INSIDE), constant(1), "seq_cst")
        self.branch(self.fresh)

    def _write_idle(self) -> None:
        """Pauses, and looks again if that is allowed."""
        (watch,) = self.block_of("watch")
        allowed = self.see(self.word(WATCH))
        may = self.and_(self.icmp_signed(">", allowed, constant(0)), self.icmp_signed("!=", self.clock, constant(0)))
        self.cbranch(may, watch, self.sleep)
        self.position_at_end(watch)
        self.pauses()
        now = self._now()
        gap = self.sub(now, self.load(self.last, typ=I64))
        with self.if_then(self.icmp_signed(">", gap, constant(INTERRUPTED))):
            self._rest()
        self.store(now, self.last)
        late = self.icmp_signed(">", self.sub(now, self.load(self.since, typ=I64)), allowed)
        resting = self.icmp_signed("<", now, self.see(self.word(RESTED)))
        self.cbranch(self.or_(late, resting), self.sleep, self.look)

    def _write_sleep(self) -> None:
        """Goes to sleep, unless there is a new job, and Python is not about to wake this helper for it."""
        again, gone = self.block_of("again", "gone")
        self.tell(constant(ASLEEP), self.standing)
        self.cbranch(self._is_new(self.see(self.word(JOB))), again, gone)
        self.position_at_end(again)
        self.cbranch(self.swap(self.standing, constant(ASLEEP), constant(AWAKE)), self.fresh, gone)
        self.position_at_end(gone)
        self.ret_void()

    def _is_new(self, job: Value) -> Value:
        """Says whether a job is open that this helper was not in yet."""
        is_open = self.icmp_signed("==", self.and_(job, constant(1)), constant(1))
        return self.and_(is_open, self.icmp_signed("!=", job, self.load(self.seen, typ=I64)))

    def _rest(self) -> None:
        self.tell(self.add(self._now(), constant(REST)), self.word(RESTED))

    def _now(self) -> Value:
        """Returns nanoseconds, 0 without a clock."""
        before, (ask, done) = self.block, self.block_of("ask", "asked")
        self.cbranch(self.icmp_signed("==", self.clock, constant(0)), done, ask)
        self.position_at_end(ask)
        self.call_at(self.clock, _CLOCK, [self.kind, self.time])
        seconds = self.read(self.time, I64)
        found = self.add(self.mul(seconds, constant(1_000_000_000)), self.read(self.time, I64, constant(1)))
        self.branch(done)
        self.position_at_end(done)
        now = self.phi(I64)
        now.add_incoming(constant(0), before)
        now.add_incoming(found, ask)
        return now
