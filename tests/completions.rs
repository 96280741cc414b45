//! What the programs print for shells: read by each shell that is there, and by bash also used.
#![cfg(all(feature = "tools", feature = "embedded"))]

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Each program, the beginning of a word of its command line, and what that can become.
const PROGRAMS: &[(&str, &str, &str, &str)] = &[
    ("ic_sh", env!("CARGO_BIN_EXE_ic_sh"), "--conn", "--connectstring"),
    ("ic_sh", env!("CARGO_BIN_EXE_ic_sh"), "desc", "describe"),
    ("ic_node", env!("CARGO_BIN_EXE_ic_node"), "--rep", "--replicas"),
    ("ic_bench", env!("CARGO_BIN_EXE_ic_bench"), "--thr", "--threads"),
    ("ic_cluster", env!("CARGO_BIN_EXE_ic_cluster"), "sto", "stop"),
];

fn completions(program: &str, shell: &str) -> Output {
    Command::new(program).args(["--completions", shell]).output().expect("a program of this package")
}

/// Gives a shell something to read; none if there is no such shell.
fn shell(shell: &str, args: &[&str], script: &[u8]) -> Option<Output> {
    let mut command = Command::new(shell);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    child.stdin.take().expect("its input").write_all(script).expect("all of it is read");
    Some(child.wait_with_output().expect("its end"))
}

#[test]
fn shells_can_read_them() {
    for (name, program, ..) in PROGRAMS {
        for with in ["bash", "zsh", "fish"] {
            let printed = completions(program, with);
            assert!(printed.status.success() && printed.stderr.is_empty(), "{name} {with}: {printed:?}");
            assert!(String::from_utf8_lossy(&printed.stdout).contains(name), "{name} {with}");
            if let Some(read) = shell(with, &["-n"], &printed.stdout) {
                assert!(read.status.success() && read.stderr.is_empty(), "{name} {with}: {read:?}");
            }
        }
    }
}

#[test]
fn bash_completes_words() {
    for (name, program, begun, whole) in PROGRAMS {
        let mut script = completions(program, "bash").stdout;
        let complete = format!(
            "\nCOMP_WORDS=({name} {begun}); COMP_CWORD=1; complete -p {name}; _{name} {name} {begun} {name}; \
             echo \"got ${{COMPREPLY[*]}}\"\n"
        );
        script.extend_from_slice(complete.as_bytes());
        let said = shell("bash", &["-eu"], &script).expect("bash");
        let text = String::from_utf8_lossy(&said.stdout);
        assert!(text.contains(&format!(" -F _{name} {name}\n")), "{said:?}");
        assert!(text.contains(&format!("got {whole}\n")), "{said:?}");
    }
}

#[test]
fn command_lines_at_fault() {
    for (_, program, ..) in PROGRAMS {
        for line in [&["--completions"][..], &["--completions", "csh"], &["--completions", "bash", "x"]] {
            let output = Command::new(program).args(line).output().expect("a program of this package");
            assert_eq!(output.status.code(), Some(2), "{line:?}: {output:?}");
            assert!(output.stdout.is_empty(), "{line:?}: {output:?}");
        }
    }
}
