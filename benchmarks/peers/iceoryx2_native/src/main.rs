// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

//! The peer iceoryx2.native of //benchmarks:compare: iceoryx2 without Python.
//!
//! Two processes, each with a publisher and a subscriber, hand samples of 4 KiB
//! over; both spin. The protocol with the benchmark is described in
//! benchmarks/harness/peer_program.h.
//!
//!     iceoryx2.native [--seconds=S] KEY...
//!
//! prints `KEY us=FIGURE` for fan_out_N: the time from a publisher's send until N
//! subscribers, each a process that sleeps in a listener of an event service, have
//! the sample of 4 KiB. Each reads the clock, and the last one counts; a round in
//! which a process was awake is discarded.

use std::error::Error;
use std::ffi::c_int;
use std::hint::spin_loop;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{self, Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::{event, publish_subscribe};

type Outcome<T> = Result<T, Box<dyn Error>>;

const FORWARDED: &str = "handover.4k.forwarded.spin";
const NEW: &str = "handover.4k.new.spin";
const FILLED: &str = "handover.4k.filled.spin";
const STREAM: &str = "handover.4k.stream_filled.spin";

#[derive(Debug, Clone, Copy, ZeroCopySend)]
#[repr(C)]
struct Bytes {
    bytes: [u8; 4096],
}
static FILLING: Bytes = Bytes { bytes: [1; 4096] };

extern "C" {
    fn sched_setaffinity(pid: c_int, size: usize, mask: *const u64) -> c_int;
    fn sched_getaffinity(pid: c_int, size: usize, mask: *mut u64) -> c_int;
    fn clock_gettime(clock: c_int, time: *mut [i64; 2]) -> c_int;
    fn getrusage(who: c_int, usage: *mut [i64; 18]) -> c_int;
}

/// Of CLOCK_MONOTONIC, which all processes share.
fn microseconds() -> f64 {
    let mut time = [0i64; 2];
    unsafe { clock_gettime(1, &mut time) };
    time[0] as f64 * 1e6 + time[1] as f64 * 1e-3
}

/// Voluntary context switches of this thread.
fn sleeps() -> i64 {
    let mut usage = [0i64; 18];
    unsafe { getrusage(1, &mut usage) };
    usage[16]
}

/// The cores that this process may use.
fn usable_cores() -> Vec<usize> {
    let mut mask = [0u64; 16];
    unsafe { sched_getaffinity(0, std::mem::size_of_val(&mask), mask.as_mut_ptr()) };
    (0..1024).filter(|core| mask[core / 64] & (1 << (core % 64)) != 0).collect()
}

fn pin_to(core: usize) {
    let mut mask = [0u64; 16];
    if core / 64 < mask.len() {
        mask[core / 64] = 1 << (core % 64);
        unsafe { sched_setaffinity(0, std::mem::size_of_val(&mask), mask.as_ptr()) };
    }
}

/// The publisher and the subscriber of one process.
struct Ports {
    publisher: Publisher<ipc::Service, Bytes, ()>,
    subscriber: Subscriber<ipc::Service, Bytes, ()>,
    _node: Node<ipc::Service>,
}

impl Ports {
    // `buffer`: how many samples may wait for the subscriber.
    fn new(name: &str, sends_to: &str, hears_from: &str, buffer: usize) -> Outcome<Ports> {
        let node = NodeBuilder::new().create::<ipc::Service>()?;
        let service = |end: &str| -> Outcome<_> {
            let name = ServiceName::new(&format!("{name}{end}"))?;
            Ok(node
                .service_builder(&name)
                .publish_subscribe::<Bytes>()
                .enable_safe_overflow(false)
                .subscriber_max_buffer_size(buffer)
                .open_or_create()?)
        };
        Ok(Ports {
            publisher: service(sends_to)?
                .publisher_builder()
                .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
                .create()?,
            subscriber: service(hears_from)?.subscriber_builder().create()?,
            _node: node,
        })
    }

    fn send_new(&self) -> Outcome<()> {
        let sample = self.publisher.loan_uninit()?;
        // As in the other subjects, the content of these is not looked at.
        unsafe { sample.assume_init() }.send()?;
        Ok(())
    }

    fn send_filled(&self) -> Outcome<()> {
        let mut sample = self.publisher.loan_uninit()?;
        // One copy, as in the other subjects, whatever the compiler makes of a
        // payload that is passed by value.
        let payload = sample.payload_mut().as_mut_ptr();
        unsafe { std::ptr::copy_nonoverlapping(&FILLING, payload, 1) };
        unsafe { sample.assume_init() }.send()?;
        Ok(())
    }

    fn send(&self, row: &str) -> Outcome<()> {
        if row == NEW {
            self.send_new()
        } else {
            self.send_filled()
        }
    }

    fn receive(&self) -> Outcome<()> {
        while self.subscriber.receive()?.is_none() {
            spin_loop();
        }
        Ok(())
    }
}

// Returns when the other process has received the last sample. It spins for
// that, as in the other subjects: a line of the pipe would wake this process.
fn ask(ports: &Ports, row: &str, count: u64) -> Outcome<()> {
    for _ in 0..count {
        ports.send(row)?;
        if row != STREAM {
            ports.receive()?;
        }
    }
    if row == STREAM {
        ports.receive()?;
    }
    Ok(())
}

fn answer(ports: &Ports, row: &str, count: u64) -> Outcome<()> {
    for _ in 0..count {
        ports.receive()?;
        if row != STREAM {
            ports.send(row)?;
        }
    }
    if row == STREAM {
        ports.send_new()?;
    }
    Ok(())
}

fn say(line: &str) -> Outcome<()> {
    println!("{line}");
    io::stdout().flush()?;
    Ok(())
}

fn serve_answers(ports: &Ports, row: &str) -> Outcome<()> {
    say("ready")?;
    for line in io::stdin().lock().lines() {
        let count = line?.trim().parse()?;
        say("begun")?;
        answer(ports, row, count)?;
        say("done")?;
    }
    Ok(())
}

/// The answering process.
struct Other {
    lines: BufReader<ChildStdout>,
    orders: ChildStdin,
}

impl Other {
    fn expect(&mut self, word: &str) -> Outcome<()> {
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        if line.trim() != word {
            return Err("the answering process has ended".into());
        }
        Ok(())
    }
}

fn serve_turns(ports: &Ports, row: &str, other: &mut Other) -> Outcome<()> {
    other.expect("ready")?;
    say("ready iceoryx2, without Python")?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let count: u64 = line.trim_start_matches("turn").trim().parse()?;
        writeln!(other.orders, "{count}")?;
        other.expect("begun")?;
        let begin = Instant::now();
        ask(ports, row, count)?;
        let elapsed = begin.elapsed();
        other.expect("done")?;
        say(&format!("ns {:.3}", elapsed.as_nanos() as f64 / count as f64))?;
    }
    Ok(())
}

// ---- To several subscribers that sleep. ----

type EventService = event::PortFactory<ipc::Service>;
type SampleService = publish_subscribe::PortFactory<ipc::Service, Bytes, ()>;

const END: u8 = 2; // The first byte of the last sample.

fn events(node: &Node<ipc::Service>, name: &str) -> Outcome<EventService> {
    Ok(node
        .service_builder(&ServiceName::new(&format!("{name}-event"))?)
        .event()
        .open_or_create()?)
}

fn samples(node: &Node<ipc::Service>, name: &str) -> Outcome<SampleService> {
    Ok(node
        .service_builder(&ServiceName::new(name)?)
        .publish_subscribe::<Bytes>()
        .max_subscribers(8)
        .open_or_create()?)
}

/// Reports for each sample when it came, and whether this process slept before.
fn subscribe(name: &str, core: usize) -> Outcome<()> {
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let subscriber = samples(&node, name)?.subscriber_builder().create()?;
    let listener = events(&node, name)?.listener_builder().create()?;
    pin_to(core);
    say("ready")?;
    loop {
        let before = sleeps();
        let sample = loop {
            if let Some(sample) = subscriber.receive()? {
                break sample;
            }
            listener.blocking_wait(|_| {})?;
        };
        let (at, slept) = (microseconds(), sleeps() > before);
        let is_last = sample.bytes[0] == END;
        drop(sample);
        say(&format!("{at:.3} {}", slept as u8))?;
        if is_last {
            return Ok(());
        }
    }
}

struct Receiver {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Receiver {
    fn start(name: &str, core: usize) -> Outcome<Receiver> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([format!("--subscribe={name}"), format!("--core={core}")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut receiver = Receiver { child, lines };
        receiver.line()?;
        Ok(receiver)
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            return Err("a subscriber has ended".into());
        }
        Ok(line.trim().to_string())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Microseconds of each round in which all of `count` subscribers slept.
fn fan_out(count: usize, seconds: f64) -> Outcome<Vec<f64>> {
    let name = format!("tenon-compare-{}-{count}", process::id());
    let cores = usable_cores();
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let publisher = samples(&node, &name)?.publisher_builder().create()?;
    let notifier = events(&node, &name)?.notifier_builder().create()?;
    let mut receivers = (0..count)
        .map(|i| Receiver::start(&name, cores[(i + 1) % cores.len().min(2)]))
        .collect::<Outcome<Vec<_>>>()?;
    pin_to(cores[0]);
    let mut times = Vec::new();
    let begun = Instant::now();
    let mut round = 0;
    loop {
        let mut sample = unsafe { publisher.loan_uninit()?.assume_init() };
        let is_last = round > 8 && begun.elapsed().as_secs_f64() > seconds;
        sample.payload_mut().bytes[0] = if is_last { END } else { 1 };
        sleep(Duration::from_millis(2)); // All of them block by then.
        let begin = microseconds();
        sample.send()?;
        notifier.notify()?;
        let (mut end, mut all_slept) = (begin, true);
        for receiver in &mut receivers {
            let line = receiver.line()?;
            let (at, slept) = line.split_once(' ').ok_or("a bad line")?;
            end = at.parse::<f64>()?.max(end);
            all_slept = all_slept && slept == "1";
        }
        if is_last {
            // They end by themselves, and remove their names.
            for receiver in &mut receivers {
                receiver.child.wait()?;
            }
            return Ok(times);
        }
        if all_slept && round > 0 {
            times.push(end - begin); // The first round warms up.
        }
        round += 1;
    }
}

fn print_key(key: &str, seconds: f64) -> Outcome<()> {
    if key == "forward_third" {
        return say(&format!(
            "{key}  missing: iceoryx2 does not forward a received sample"
        ));
    }
    let count = key.strip_prefix("fan_out_").ok_or("no such key")?.parse()?;
    let mut times = fan_out(count, seconds)?;
    times.sort_by(f64::total_cmp);
    match times.get(times.len() / 2) {
        Some(us) => say(&format!("{key}  us={us:.3}")),
        None => say(&format!(
            "{key}  missing: no round in which all processes have slept"
        )),
    }
}

fn flag(name: &str) -> String {
    let start = format!("--{name}=");
    std::env::args()
        .find_map(|argument| argument.strip_prefix(&start).map(str::to_string))
        .unwrap_or_default()
}

fn run() -> Outcome<()> {
    let (row, cores, name) = (flag("row"), flag("cores"), flag("answer"));
    set_log_level(LogLevel::Error);
    if !flag("subscribe").is_empty() {
        return subscribe(&flag("subscribe"), flag("core").parse()?);
    }
    if row.is_empty() {
        let seconds = flag("seconds").parse().unwrap_or(1.0);
        return std::env::args()
            .skip(1)
            .filter(|argument| !argument.starts_with("--"))
            .try_for_each(|key| print_key(&key, seconds));
    }
    if row == FORWARDED {
        return say(&format!(
            "unsupported iceoryx2 does not forward a received sample: see {NEW}"
        ));
    }
    if row != NEW && row != FILLED && row != STREAM {
        return say("unsupported this row is not implemented");
    }
    let (mine, its) = cores.split_once(',').ok_or("--cores=A,B is missing")?;
    let buffer = if row == STREAM { 64 } else { 1 };
    if !name.is_empty() {
        let ports = Ports::new(&name, "-back", "-there", buffer)?;
        pin_to(its.parse()?);
        return serve_answers(&ports, &row);
    }
    let name = format!("tenon-compare-{}", process::id());
    let ports = Ports::new(&name, "-there", "-back", buffer)?;
    let mut child = Command::new(std::env::current_exe()?)
        .args([format!("--row={row}"), format!("--cores={cores}")])
        .arg(format!("--answer={name}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    pin_to(mine.parse()?);
    let mut other = Other {
        lines: BufReader::new(child.stdout.take().ok_or("no output")?),
        orders: child.stdin.take().ok_or("no input")?,
    };
    let served = serve_turns(&ports, &row, &mut other);
    drop(other); // The end of its input: it ends.
    child.wait()?;
    served
}

fn main() {
    if let Err(error) = run() {
        eprintln!("iceoryx2.native: {error}");
        process::exit(1);
    }
}
