//! What the command lines of the programs have in common: help, version, exit status, and what they print for
//! shells to complete them, which is read by each shell that is there, and by bash also used.
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

fn run(program: &str, line: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(program).args(line).output().expect("a program of this package");
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.code(), out, err)
}

#[test]
fn help_and_version() {
    for (name, program, ..) in PROGRAMS {
        let version = format!("{name} {}\n", env!("CARGO_PKG_VERSION"));
        assert_eq!(run(program, &["--version"]), (Some(0), version, String::new()));
        for help in ["-h", "--help"] {
            let (code, out, err) = run(program, &[help]);
            assert_eq!((code, err.as_str()), (Some(0), ""), "{name} {help}");
            assert!(
                out.contains(&format!("Usage: {name} ")) && out.contains("--completions <SHELL>"),
                "{out}"
            );
            assert!(!out.contains(env!("CARGO_PKG_DESCRIPTION")) && !out.contains('\x1b'), "{out}");
        }
    }
}

#[test]
fn command_lines_at_fault() {
    let wrong =
        [&["--frob"][..], &["--completions"], &["--completions", "csh"], &["--completions", "bash", "x"]];
    let node = env!("CARGO_BIN_EXE_ic_node");
    let of_node = [["--nodes", "0"], ["--nodes", "49"], ["--replicas", "3"], ["--port", "x"]];
    let all = PROGRAMS.iter().flat_map(|(_, program, ..)| wrong.map(|line| (*program, line)));
    for (program, line) in all.chain(of_node.iter().map(|line| (node, &line[..]))) {
        let (code, out, err) = run(program, line);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{line:?}: {err}");
        assert!(err.starts_with("error: ") && !err.contains('\x1b'), "{line:?}: {err}");
    }
}
