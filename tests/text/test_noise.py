"""TensorFlow's noise, as tables of lines."""

from __future__ import annotations

import pytest

from clusterkit.text.noise import NoiseFilter

NOISE = [
    "2026-11-21 05:00:00.123456: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on. You may see",
    "I0000 00:00:1763700000.123456   12345 port.cc:153] oneDNN custom operations are on.",
    "I0000 00:00:1763700000.123456 12345 coordination_service_agent.cc:351] Coordination agent has connected",
    "To enable the following instructions: AVX2 AVX512F FMA, in other operations, rebuild TensorFlow",
    "E0000 00:00:1763700000.1 1 cuda_dnn.cc:8579] Unable to register cuDNN factory: Attempting to register",
    "W0000 00:00:1763700000.1 1 computation_placer.cc:177] computation placer already registered.",
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "2026-11-21 05:00:00.1: W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not find",
    "2026-11-21 05:00:00.1: E external/local_xla/xla/cuda/cuda_platform.cc:51] failed call to cuInit",
    "W tensorflow/core/local_rendezvous.cc:404] Local rendezvous is aborting with status: OUT_OF_RANGE: End",
    "W0000 00:00:1795.1 1 local_rendezvous.cc:412] Local rendezvous is aborting with status: CANCELLED: RecvFromRemote",
    "W0000 00:00:1795.1 1 local_rendezvous.cc:412] Local rendezvous is aborting with status: ABORTED: Step -1795 "
    "cancelled.  Cancelling rendezvous. [type.googleapis.com/tensorflow.DerivedStatus='']",
    "W0000 00:00:1795.1 1 util.cc:9] oneDNN supports DT_BOOL only on platforms with AVX-512. Falling back to",
    "W0000 00:00:1795.1 1 grpc_worker_service.cc:545] RecvTensor cancelled for -4637",
    "W0000 00:00:1795.1 1 destroy_tensor_handle_node.h:65] Ignoring an error encountered when deleting remote tensors "
    "handles: INVALID_ARGUMENT: Unable to find the relevant tensor",
    "W0000 00:00:1795.1 1 context_distributed_manager.cc:1] Device filters can only be specified when initializing the "
    "cluster. Any changes in device filters are ignored",
    "E0000 00:00:1795.1 1 ring_alg.cc:291] Aborting RingReduce with UNAVAILABLE: recvmsg:Connection reset by peer",
    "E0000 00:00:1795.1 1 base_collective_executor.cc:252] BaseCollectiveExecutor::StartAbort UNAVAILABLE: Collective "
    "ops is aborted by: recvmsg:Connection reset by peer",
    "E0000 00:00:1795.1 1 context.cc:873] Failed to register function remotely due to failed to connect to all "
    "addresses; last error: UNAVAILABLE: ipv4:127.0.0.1:4001: Failed to connect to remote host",
    "W0000 00:00:1795.1 1 type_inference.cc:340] Type inference failed. This indicates an invalid graph that escaped "
    "type checking. Error message: INVALID_ARGUMENT: expected PRODUCT element type for input 0, got goo.gle/debugstr",
    "tensorflow/python/data/ops/dataset_ops.py:463: UserWarning: To make it possible to preserve tf.data options "
    "across serialization boundaries, their implementation has moved to be part of the TensorFlow graph.",
    "W0000 00:00:1795.1 1 preemption_notifier.cc:89] SIGTERM caught at 2026-11-26T02:04:14+00:00",
]
NEWS = [
    "",
    "step 100 loss 0.3",
    "step: 100",
    "}",
    "Traceback (most recent call last):",
    "tensorflow.python.framework.errors_impl.UnavailableError: failed to connect to all addresses",
    "2026-11-21 05:00:00.1: E tensorflow/core/distributed_runtime/master.cc:1] CreateSession failed",
    "2026-11-21 05:00:00.1: W tensorflow/core/framework/op_kernel.cc:1839] OP_REQUIRES failed at x",
    "E0000 00:00:1763700000.1 1 coordination_service_agent.cc:1] Coordination agent is set to ERROR",
    "F0000 00:00:1763700000.1 1 tensor.cc:1] Check failed",
    "Local rendezvous is aborting with status: INVALID_ARGUMENT: x",
    "W0000 00:00:1795.1 1 local_rendezvous.cc:412] Local rendezvous is aborting with status: ABORTED: own words",
    "SIGTERM caught at the end of epoch 3",
    "W0000 00:00:1795.1 1 type_inference.cc:340] Type inference failed. Error message: INVALID_ARGUMENT: my_op",
    "E0000 00:00:1795.1 1 base_collective_executor.cc:252] BaseCollectiveExecutor::StartAbort INVALID_ARGUMENT: Shape",
    "StartAbort UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):",
    "I think 2026-11-21 was fine",
]


@pytest.mark.parametrize("line", NOISE)
def test_what_says_nothing_about_the_job_is_noise(line: str) -> None:
    """What TensorFlow prints at every start, and its C++ code at level INFO."""
    assert NoiseFilter().is_noise(line)


@pytest.mark.parametrize("line", NEWS)
def test_everything_else_is_shown(line: str) -> None:
    """The program's own lines, warnings and errors."""
    assert not NoiseFilter().is_noise(line)


def test_a_printed_protobuf_is_noise_to_its_end() -> None:
    """The session options come over many lines; what follows them is shown."""
    noise = NoiseFilter()
    options = [
        "I0000 00:00:1763700000.1 1 direct_session.cc:1] SessionOptions: device_count {",
        '  key: "CPU"',
        "  value: 1",
        "}",
        "allow_soft_placement: true",
        "experimental {",
        "  x: 1",
        "}",
    ]
    assert all(noise.is_noise(line) for line in options)
    assert not noise.is_noise("step 1 of 5")
    assert not noise.is_noise("}")


@pytest.mark.parametrize(
    ("message", "hidden"),
    [
        (
            [
                "W0000 00:00:1763700000.1 1 local_rendezvous.cc:404] Local rendezvous is aborting with status: "
                "OUT_OF_RANGE: End of sequence",
                "\t [[{{node IteratorGetNext}}]]",
            ],
            True,
        ),
        (
            [
                "I0000 00:00:1763700000.1 1 kernel_and_device.cc:101] Ignoring error status when releasing "
                "multi-device function handle UNIMPLEMENTED: Releasing it is not yet implemented.",
                "",
            ],
            True,
        ),
        (
            ["I0000 00:00:1763700000.1 1 eager_service_impl.cc:1] Creating context on", "/job:worker/replica:0/task:0"],
            True,
        ),
        (
            [
                "E0000 00:00:1763700000.1 1 base_collective_executor.cc:252] BaseCollectiveExecutor::StartAbort "
                "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):",
                "/job:worker/replica:0/task:1",
                "The tasks have crashed. Check the task logs for an earlier error",
            ],
            False,
        ),
        (
            [
                "W0000 00:00:1763700000.1 1 local_rendezvous.cc:412] Local rendezvous is aborting with status: "
                "UNAVAILABLE: Socket closed",
                "Additional GRPC error information from remote target /job:worker/replica:0/task:1 while calling /x:",
                ':UNKNOWN:Error received from peer  {grpc_message:"Socket closed", grpc_status:14}',
                "The error could be from a previous operation. Restart your program to reset.",
                "\t [[{{node MatMul}}]]",
            ],
            True,
        ),
        (
            [
                "W0000 00:00:1795.1 1 type_inference.cc:340] Type inference failed. This indicates an invalid graph. "
                "Error message: INVALID_ARGUMENT: expected PRODUCT element type for input 0, got goo.gle/debugstr",
                "type_id: TFT_ANY",
                "",
                "\twhile inferring type of node 'AutoShardDataset'",
            ],
            True,
        ),
        (
            [
                "tensorflow/python/data/ops/dataset_ops.py:463: UserWarning: To make it possible to preserve tf.data "
                "options across serialization boundaries, their implementation has moved.",
                '  warnings.warn("To make it possible to preserve tf.data options across "',
            ],
            True,
        ),
    ],
)
def test_a_message_of_many_lines_is_hidden_or_shown_as_a_whole(message: list[str], hidden: bool) -> None:
    """As TensorFlow printed them; what the program prints after it is shown."""
    noise = NoiseFilter()
    assert [noise.is_noise(line) for line in message] == [hidden] * len(message)
    assert not noise.is_noise("step 1 of 5")
    assert not any(noise.is_noise(line) for line in message[1:])


def test_other_information_does_not_begin_a_protobuf() -> None:
    """Lines that look like a field are hidden only where options were announced."""
    noise = NoiseFilter()
    assert noise.is_noise("I0000 00:00:1763700000.1 1 x.cc:1] Created device")
    assert not noise.is_noise("loss: 0.5")


@pytest.mark.parametrize(("line", "hidden"), [*((line, True) for line in NOISE), *((line, False) for line in NEWS)])
def test_the_quick_look_at_many_lines_misses_no_noise(line: str, hidden: bool) -> None:
    """It may suspect too much, and never too little."""
    whole = f"\nstep 1\n{line}\nstep 2\n".encode()
    assert NoiseFilter().may_hide(whole) or not hidden
    assert not NoiseFilter().may_hide(b"\nINFO: Epoch 3, step 100: TOTAL loss 0.3 in /tmp/c\nI think so\n")
