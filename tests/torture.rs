//! A short run of `ic_torture`; long ones, and those on a real cluster, are run by hand.

use std::process::Command;

#[test]
fn nothing_is_lost_done_twice_or_left_waiting() {
    let output = Command::new(env!("CARGO_BIN_EXE_ic_torture"))
        .args(["--seconds", "3", "--seed", "8", "--rate", "300"])
        .output()
        .expect("ic_torture");
    let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
    assert!(output.status.success() && said.contains("violations            0"), "{said}");
    assert!(
        said.contains("fault                 kill") && said.contains("fault                 link drop"),
        "{said}"
    );
}
