// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

//! The peer iceoryx2.native of //benchmarks:compare: iceoryx2 without Python.
//!
//! Two processes, each with a publisher and a subscriber, hand samples of 4 KiB
//! over; both spin. The protocol with the benchmark is described in
//! benchmarks/harness/peer_program.h.

use std::error::Error;
use std::ffi::c_int;
use std::hint::spin_loop;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{self, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;

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

fn flag(name: &str) -> String {
    let start = format!("--{name}=");
    std::env::args()
        .find_map(|argument| argument.strip_prefix(&start).map(str::to_string))
        .unwrap_or_default()
}

fn run() -> Outcome<()> {
    let (row, cores, name) = (flag("row"), flag("cores"), flag("answer"));
    if row == FORWARDED {
        return say(&format!(
            "unsupported iceoryx2 does not forward a received sample: see {NEW}"
        ));
    }
    if row != NEW && row != FILLED && row != STREAM {
        return say("unsupported this row is not implemented");
    }
    set_log_level(LogLevel::Error);
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
