"""Groups the kinds of events by subject, for the ledger. A new kind has to be added to one of these unions."""

from __future__ import annotations

from clusterkit.words import events as ev

# Events that do not change the ledger. Only the console and the page show these events.
Unrecorded = (
    ev.Ticked | ev.AllocationEnding | ev.Profiled | ev.Noted | ev.TensorBoardReady | ev.TensorBoardLost
    | ev.DashboardReady | ev.DashboardLost | ev.ProgramChanged | ev.Inspected | ev.Impaired | ev.Crashed
    | ev.StorageFailed | ev.HostJoined | ev.HostCut | ev.HostBack | ev.HostDraining | ev.HostLost | ev.HostAvoided
    | ev.LeftEarly | ev.CannotExit | ev.TrainAlone | ev.RequestRefused | ev.Warned | ev.EditTrains
    | ev.Verified
    | ev.CheckpointFound | ev.Swept | ev.Drained | ev.StepsTimed | ev.TrainsWith | ev.PhaseReached
    | ev.StepsUnreported | ev.SigtermHandled
)  # fmt: skip
OfFault = ev.FaultInjected | ev.FaultTook | ev.FaultHealed
OfTask = (
    ev.Changed | ev.Spawned | ev.SpawnFailed | ev.Exited | ev.AttemptEnded | ev.Failed | ev.Paused | ev.InDebugger
    | ev.LeftDebugger | ev.EditorAwaited | ev.Straggling | ev.KeepsUp
)  # fmt: skip
OfProgram = (
    ev.Checkpointed | ev.Resumed | ev.Ready | ev.Reached | ev.Repaired | ev.PhaseChanged
    | ev.ProgramEnds
)  # fmt: skip
OfRun = (
    ev.Began | ev.Continued | ev.RestartPlanned | ev.Shrunk | ev.WaitsForChange | ev.Stalled | ev.Succeeded
    | ev.Stopping | ev.Interrupted | ev.LifelineLost | ev.Finished | ev.Placed | ev.Requested
)  # fmt: skip
