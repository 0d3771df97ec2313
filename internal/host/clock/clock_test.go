package clock

import "testing"

func TestCalibrate(t *testing.T) {
	for _, test := range []struct {
		readings []int64
		want     Calibration
	}{
		{[]int64{0, 30, 55, 95}, Calibration{Overhead: 25, Resolution: 25}},
		{[]int64{0, 0, 100, 100, 300}, Calibration{Overhead: 0, Resolution: 100}}, // a coarse clock
		{[]int64{5, 5}, Calibration{}},
		{nil, Calibration{}},
	} {
		if got := calibrate(test.readings); got != test.want {
			t.Errorf("%v: %+v, want %+v", test.readings, got, test.want)
		}
	}
}

func TestCalibrationOf(t *testing.T) {
	first, second := CalibrationOf(Monotonic()), CalibrationOf(Monotonic())
	if first != second || first.Resolution <= 0 {
		t.Errorf("monotonic clock: %+v, then %+v", first, second)
	}
	if got := CalibrationOf(Simulated(func() int64 { return 0 })); got != (Calibration{}) {
		t.Errorf("simulated clock: %+v, want an exact clock", got)
	}
	if got := CalibrationOf(DeviceEvents(500)); got != (Calibration{Resolution: 500}) {
		t.Errorf("device events: %+v, want a resolution of 500 and no overhead", got)
	}
}
